#include "core/wire/frame.h"
