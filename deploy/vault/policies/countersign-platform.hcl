# What the platform team may do with `countersign keys`. Whoever holds this can read private keys: a write keeps
# the secret's other fields, so it reads them, and `verify` signs with them.

path "secret/data/gateway/*" {
  capabilities = ["create", "read", "update"]
}

# Versions and their ages; which logins there are.
path "secret/metadata/gateway/*" {
  capabilities = ["read", "list"]
}

# For a key that has leaked: takes versions out, and back in what was only deleted.
path "secret/delete/gateway/*" {
  capabilities = ["update"]
}

path "secret/undelete/gateway/*" {
  capabilities = ["update"]
}

path "secret/destroy/gateway/*" {
  capabilities = ["update"]
}
