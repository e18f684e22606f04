# For the people who use `countersign keys`, in addition: makes keys that do not leave Vault, and new versions of them.
# `verify` signs. No export, no backup, no delete, and no change of a key's settings, which could make it exportable.

path "transit-production/keys/+" {
  capabilities = ["read", "update"]
}

path "transit-production/keys/+/rotate" {
  capabilities = ["update"]
}

path "transit-production/sign/+/sha2-256" {
  capabilities = ["update"]
}
