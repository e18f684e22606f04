#!/bin/sh
# Lets Countersign and the platform team into Vault: KV version 2, the two policies, a role to log in with.
# Needs the `vault` program, VAULT_ADDR and a token that may do this. Can be run again: what is there stays,
# what differs is brought up to date. Prints no secret.
#
#   AUTH="approle kubernetes" KUBERNETES_NAMESPACE=payments sh deploy/vault/setup.sh
set -eu

KV_MOUNT=${KV_MOUNT:-secret}                     # keys.vault.mount
KV_PREFIX=${KV_PREFIX:-gateway}                  # first segments of keys.vault.path
AUTH=${AUTH:-approle}                            # approle, kubernetes or both
ROLE=${ROLE:-countersign}                        # name of the role in either
TOKEN_TTL=${TOKEN_TTL:-1h}                       # Countersign renews at two thirds
TOKEN_MAX_TTL=${TOKEN_MAX_TTL:-24h}              # and logs in again after that
APPROLE_MOUNT=${APPROLE_MOUNT:-approle}
SECRET_ID_TTL=${SECRET_ID_TTL:-0}                # 0: until it is revoked
KUBERNETES_MOUNT=${KUBERNETES_MOUNT:-kubernetes}
KUBERNETES_HOST=${KUBERNETES_HOST:-}             # API server; empty: the one that Vault itself runs in
KUBERNETES_NAMESPACE=${KUBERNETES_NAMESPACE:-countersign}
KUBERNETES_SERVICE_ACCOUNT=${KUBERNETES_SERVICE_ACCOUNT:-countersign}
KUBERNETES_AUDIENCE=${KUBERNETES_AUDIENCE:-vault} # vaultToken.audience of the Helm chart

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

say() {
  printf '%s\n' "$*"
}

fail() {
  printf 'setup.sh: %s\n' "$*" >&2
  exit 1
}

# has_line TEXT MOUNT: whether a listing of mounts has this one.
has_line() {
  printf '%s\n' "$1" | grep -q "^$2/ "
}

kv() {
  if ! has_line "$(vault secrets list)" "$KV_MOUNT"; then
    vault secrets enable -path="$KV_MOUNT" -version=2 kv
  fi
  vault secrets list -detailed | grep "^$KV_MOUNT/ " | grep -q 'version:2' ||
    fail "$KV_MOUNT is not a KV mount of version 2"
}

# policy NAME: the file as it is, but for mount and prefix.
policy() {
  sed -e "s#\"secret/\([a-z]*\)/gateway/#\"$KV_MOUNT/\1/$KV_PREFIX/#" "$here/policies/$1.hcl" |
    vault policy write "$1" -
}

enable_auth() {
  if ! has_line "$(vault auth list)" "$2"; then
    vault auth enable -path="$2" "$1"
  fi
}

approle() {
  enable_auth approle "$APPROLE_MOUNT"
  vault write "auth/$APPROLE_MOUNT/role/$ROLE" \
    token_policies=countersign-proxy token_ttl="$TOKEN_TTL" token_max_ttl="$TOKEN_MAX_TTL" \
    secret_id_ttl="$SECRET_ID_TTL"
  say "AppRole: the role id is $(vault read -field=role_id "auth/$APPROLE_MOUNT/role/$ROLE/role-id")"
  say "A secret id, wrapped so that it can be taken out only once:"
  say "  vault write -wrap-ttl=10m -force auth/$APPROLE_MOUNT/role/$ROLE/secret-id"
}

kubernetes() {
  # A mount that is there may serve others: its API server is only changed when one is named.
  if ! has_line "$(vault auth list)" "$KUBERNETES_MOUNT"; then
    enable_auth kubernetes "$KUBERNETES_MOUNT"
    KUBERNETES_HOST=${KUBERNETES_HOST:-https://kubernetes.default.svc}
  fi
  if [ -n "$KUBERNETES_HOST" ]; then
    vault write "auth/$KUBERNETES_MOUNT/config" kubernetes_host="$KUBERNETES_HOST"
  fi
  vault write "auth/$KUBERNETES_MOUNT/role/$ROLE" \
    bound_service_account_names="$KUBERNETES_SERVICE_ACCOUNT" \
    bound_service_account_namespaces="$KUBERNETES_NAMESPACE" \
    audience="$KUBERNETES_AUDIENCE" \
    token_policies=countersign-proxy token_ttl="$TOKEN_TTL" token_max_ttl="$TOKEN_MAX_TTL"
  say "Kubernetes: $KUBERNETES_NAMESPACE/$KUBERNETES_SERVICE_ACCOUNT logs in with the role $ROLE"
}

command -v vault >/dev/null || fail "the program vault is not installed"
kv
policy countersign-proxy
policy countersign-platform
for method in $AUTH; do
  case $method in
    approle) approle ;;
    kubernetes) kubernetes ;;
    *) fail "AUTH is approle, kubernetes or both, not $method" ;;
  esac
done
