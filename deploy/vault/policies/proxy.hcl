# For Countersign: reads the keys of one environment. No list, no write, no metadata.

path "secret/data/gateway/production/*" {
  capabilities = ["read"]
}
