# For Countersign, in addition: signs with the keys of one environment that do not leave Vault, and reads their public
# keys. No create, no rotate, no export, no backup.

path "transit-production/sign/+/sha2-256" {
  capabilities = ["update"]
}

path "transit-production/keys/+" {
  capabilities = ["read"]
}
