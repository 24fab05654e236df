"""Makes a C++ source of the page: embed.py trace.html trace.css SCRIPT... OUT. Run by meson."""

import sys
from pathlib import Path


def main():
    html, css, *scripts, out = map(Path, sys.argv[1:])
    page = html.read_text(encoding="utf-8").replace("/*STYLE*/", css.read_text(encoding="utf-8"))
    page = page.replace("/*SCRIPT*/", "\n".join(script.read_text(encoding="utf-8") for script in scripts))
    if "/*STYLE*/" in page or "/*SCRIPT*/" in page or page.count("<!--DATA-->") != 1:
        sys.exit("embed.py: the page has its marks not once each")
    data = page.encode("utf-8")
    lines = ",\n".join(",".join(map(str, data[at:at + 32])) for at in range(0, len(data), 32))
    out.write_text(f"""// Made by sim/page/embed.py.
#include "sim/page/page.h"

namespace lockstep::sim {{
namespace {{

constexpr unsigned char kPage[] = {{
{lines}}};

}}  // namespace

std::string_view TracePage() {{ return {{reinterpret_cast<const char*>(kPage), sizeof kPage}}; }}

}}  // namespace lockstep::sim
""", encoding="utf-8")


if __name__ == "__main__":
    main()
