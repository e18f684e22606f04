# What Countersign itself may do: read keys. It neither lists, nor writes, nor sees metadata.

path "secret/data/gateway/*" {
  capabilities = ["read"]
}
