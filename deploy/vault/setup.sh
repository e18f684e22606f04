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
KUBERNETES_CA_FILE=${KUBERNETES_CA_FILE:-}       # PEM file of the CA of the API server
KUBERNETES_REVIEWER_JWT_FILE=${KUBERNETES_REVIEWER_JWT_FILE:-} # file with the token that Vault reviews tokens with
KUBERNETES_DISABLE_LOCAL_CA_JWT=${KUBERNETES_DISABLE_LOCAL_CA_JWT:-} # true: not those of the pod that Vault runs in
KUBERNETES_REPLACE_CONFIG=${KUBERNETES_REPLACE_CONFIG:-} # yes: replace a configuration that is there
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
  mounts=$(vault secrets list) || fail "the mounts cannot be listed"
  if ! has_line "$mounts" "$KV_MOUNT"; then
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
  methods=$(vault auth list) || fail "the auth methods cannot be listed"
  if ! has_line "$methods" "$2"; then
    vault auth enable -path="$2" "$1"
  fi
}

approle() {
  enable_auth approle "$APPROLE_MOUNT"
  vault write "auth/$APPROLE_MOUNT/role/$ROLE" \
    token_policies=countersign-proxy token_ttl="$TOKEN_TTL" token_max_ttl="$TOKEN_MAX_TTL" \
    secret_id_ttl="$SECRET_ID_TTL"
  role_id=$(vault read -field=role_id "auth/$APPROLE_MOUNT/role/$ROLE/role-id") || fail "the role id cannot be read"
  say "AppRole: the role id is $role_id"
  say "A secret id, wrapped so that it can be taken out only once:"
  say "  vault write -wrap-ttl=10m -force auth/$APPROLE_MOUNT/role/$ROLE/secret-id"
}

# config_field NAME: a field of the configuration that is there, empty without one.
config_field() {
  printf '%s\n' "$kubernetes_config" | sed -n "s/^$1  *//p" | sed 's/^n\/a$//'
}

# Vault replaces the whole configuration, and does not show the reviewer token: what is there may serve others and
# is only replaced when that is asked for, with everything that it has.
kubernetes_config() {
  if kubernetes_config=$(vault read "auth/$KUBERNETES_MOUNT/config" 2>&1); then
    if [ "$KUBERNETES_REPLACE_CONFIG" != yes ]; then
      [ -z "$KUBERNETES_HOST" ] || [ "$KUBERNETES_HOST" = "$(config_field kubernetes_host)" ] ||
        fail "auth/$KUBERNETES_MOUNT has another kubernetes_host; KUBERNETES_REPLACE_CONFIG=yes replaces its configuration"
      return 0
    fi
    [ -n "$KUBERNETES_HOST" ] || fail "KUBERNETES_REPLACE_CONFIG needs KUBERNETES_HOST"
    [ -n "$KUBERNETES_CA_FILE" ] || [ -z "$(config_field kubernetes_ca_cert)" ] ||
      fail "auth/$KUBERNETES_MOUNT has a kubernetes_ca_cert: give KUBERNETES_CA_FILE, or it would be lost"
    [ -n "$KUBERNETES_REVIEWER_JWT_FILE" ] || [ "$(config_field token_reviewer_jwt_set)" = false ] ||
      [ "$KUBERNETES_DISABLE_LOCAL_CA_JWT" = false ] ||
      fail "auth/$KUBERNETES_MOUNT may have a token_reviewer_jwt: give KUBERNETES_REVIEWER_JWT_FILE, or it would be lost"
    [ -n "$KUBERNETES_DISABLE_LOCAL_CA_JWT" ] || [ "$(config_field disable_local_ca_jwt)" != true ] ||
      fail "auth/$KUBERNETES_MOUNT has disable_local_ca_jwt: give KUBERNETES_DISABLE_LOCAL_CA_JWT, or it would be lost"
  else
    case $kubernetes_config in
      *"No value found"*) ;;
      *) fail "auth/$KUBERNETES_MOUNT/config cannot be read: $kubernetes_config" ;;
    esac
    KUBERNETES_HOST=${KUBERNETES_HOST:-https://kubernetes.default.svc}
  fi
  set -- kubernetes_host="$KUBERNETES_HOST"
  [ -z "$KUBERNETES_CA_FILE" ] || set -- "$@" kubernetes_ca_cert=@"$KUBERNETES_CA_FILE"
  [ -z "$KUBERNETES_REVIEWER_JWT_FILE" ] || set -- "$@" token_reviewer_jwt=@"$KUBERNETES_REVIEWER_JWT_FILE"
  [ -z "$KUBERNETES_DISABLE_LOCAL_CA_JWT" ] ||
    set -- "$@" disable_local_ca_jwt="$KUBERNETES_DISABLE_LOCAL_CA_JWT"
  vault write "auth/$KUBERNETES_MOUNT/config" "$@"
}

kubernetes() {
  enable_auth kubernetes "$KUBERNETES_MOUNT"
  kubernetes_config
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
say "Done: everything above is in Vault."
