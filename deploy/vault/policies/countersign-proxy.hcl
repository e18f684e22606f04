# For Countersign: read keys. No list, no write, no metadata.

path "secret/data/gateway/*" {
  capabilities = ["read"]
}
