# For the people who use `countersign keys` in one environment. This policy allows reading private keys: a write preserves
# the other fields of the secret, so it reads them, and `verify` signs with them.

# Deleting here is `vault kv delete` of the newest version, which can be undeleted.
path "secret/data/gateway/production/*" {
  capabilities = ["create", "read", "update", "patch", "delete"]
}

# List logins and versions with their age.
path "secret/metadata/gateway/production/*" {
  capabilities = ["read", "list"]
}

# For leaked keys and stopped logins: delete, undelete and destroy versions.
path "secret/delete/gateway/production/*" {
  capabilities = ["update"]
}

path "secret/undelete/gateway/production/*" {
  capabilities = ["update"]
}

path "secret/destroy/gateway/production/*" {
  capabilities = ["update"]
}
