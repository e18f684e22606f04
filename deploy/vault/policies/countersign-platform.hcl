# For the platform team, which uses `countersign keys`. This policy allows reading private keys: a write preserves the
# other fields of the secret, so it reads them, and `verify` signs with them.

path "secret/data/gateway/*" {
  capabilities = ["create", "read", "update"]
}

# List logins and versions with their age.
path "secret/metadata/gateway/*" {
  capabilities = ["read", "list"]
}

# For leaked keys: delete, undelete and destroy versions.
path "secret/delete/gateway/*" {
  capabilities = ["update"]
}

path "secret/undelete/gateway/*" {
  capabilities = ["update"]
}

path "secret/destroy/gateway/*" {
  capabilities = ["update"]
}
