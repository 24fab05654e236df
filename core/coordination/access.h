// What an ACL allows. Only the scheme `world` with the id `anyone` is known in this part, so an
// access list is the set of permissions that everybody has.
#pragma once

#include <cstdint>
#include <vector>

#include "core/coordination/transaction.h"

namespace lockstep::coordination {

inline constexpr int32_t kPermissionRead = 1;
inline constexpr int32_t kPermissionWrite = 2;
inline constexpr int32_t kPermissionCreate = 4;
inline constexpr int32_t kPermissionDelete = 8;
inline constexpr int32_t kPermissionAdmin = 16;
inline constexpr int32_t kPermissionAll = 31;

inline bool IsWorldAnyone(const Acl& acl) { return acl.scheme == "world" && acl.id == "anyone"; }

// What everybody may do. Everything, if the list is empty: as ZooKeeper treats its own nodes.
inline int32_t PermissionsOf(const std::vector<Acl>& list) {
  if (list.empty()) return kPermissionAll;
  int32_t permissions = 0;
  for (const Acl& acl : list) {
    if (IsWorldAnyone(acl)) permissions |= acl.permissions;
  }
  return permissions;
}

}  // namespace lockstep::coordination
