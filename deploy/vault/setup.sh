#!/bin/sh
# Configures Vault for one environment of Countersign: KV version 2, Transit if named, a policy for Countersign and one for the platform
# team, and a role for Countersign to log in with. Needs `vault` (or OpenBao's `bao`), VAULT_ADDR and a token with these
# permissions. Idempotent: the two policies are overwritten, a role gets the given settings, everything else is unchanged.
# Prints no secret.
#
#   ENVIRONMENT=production AUTH="approle kubernetes" KUBERNETES_NAMESPACE=payments sh deploy/vault/setup.sh
set -eu

ENVIRONMENT=${ENVIRONMENT:-}                     # as in the configuration: sandbox, production
ROLE=${ROLE:-countersign-$ENVIRONMENT}           # name of the role; the policies are $ROLE-proxy and $ROLE-platform
KV_MOUNT=${KV_MOUNT:-secret}                     # keys.vault.mount
KV_PREFIX=${KV_PREFIX:-gateway}                  # first segments of keys.vault.path
TRANSIT_MOUNT=${TRANSIT_MOUNT:-}                 # keys.vault.transit.mounts, such as transit-production; default: no Transit
AUTH=${AUTH-approle}                             # approle, kubernetes, both, or nothing: policies only
TOKEN_TTL=${TOKEN_TTL:-}                         # new role: 1h; Countersign renews at two thirds
TOKEN_MAX_TTL=${TOKEN_MAX_TTL:-}                 # new role: 24h; then Countersign logs in again
APPROLE_MOUNT=${APPROLE_MOUNT:-approle}
SECRET_ID_TTL=${SECRET_ID_TTL:-}                 # new role: 0, valid until it is revoked
KUBERNETES_MOUNT=${KUBERNETES_MOUNT:-kubernetes}
KUBERNETES_HOST=${KUBERNETES_HOST:-}             # API server; default: that of the cluster Vault runs in
KUBERNETES_CA_FILE=${KUBERNETES_CA_FILE:-}       # PEM file with the CA of the API server
KUBERNETES_REVIEWER_JWT_FILE=${KUBERNETES_REVIEWER_JWT_FILE:-} # file with the token for the TokenReview API
KUBERNETES_DISABLE_LOCAL_CA_JWT=${KUBERNETES_DISABLE_LOCAL_CA_JWT:-} # true: do not use those of the pod of Vault
KUBERNETES_REPLACE_CONFIG=${KUBERNETES_REPLACE_CONFIG:-} # yes: replace an existing configuration
KUBERNETES_NAMESPACE=${KUBERNETES_NAMESPACE:-}   # new role: countersign
KUBERNETES_SERVICE_ACCOUNT=${KUBERNETES_SERVICE_ACCOUNT:-} # new role: countersign, that of the Helm chart
KUBERNETES_AUDIENCE=${KUBERNETES_AUDIENCE:-}     # new role: vault, like vaultToken.audience of the Helm chart

# The script parses the default output format.
unset VAULT_FORMAT BAO_FORMAT

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

say() {
  printf '%s\n' "$*"
}

fail() {
  printf 'setup.sh: %s\n' "$*" >&2
  exit 1
}

# has_line TEXT MOUNT: whether a list of mounts contains this one.
has_line() {
  printf '%s\n' "$1" | grep -q "^$2/ "
}

kv() {
  mounts=$(vault secrets list) || fail "cannot list the mounts"
  if ! has_line "$mounts" "$KV_MOUNT"; then
    vault secrets enable -path="$KV_MOUNT" -version=2 kv
  fi
  case $(vault secrets list -detailed | grep "^$KV_MOUNT/ ") in
    *map\[version:2\]*) ;;
    *" kv "*)
      fail "$KV_MOUNT is a KV mount of version 1; to make it version 2: vault kv enable-versioning $KV_MOUNT" ;;
    *) fail "$KV_MOUNT is not a KV mount" ;;
  esac
}

transit() {
  [ -n "$TRANSIT_MOUNT" ] || return 0
  if ! has_line "$mounts" "$TRANSIT_MOUNT"; then
    vault secrets enable -path="$TRANSIT_MOUNT" transit
  fi
  vault secrets list | grep -q "^$TRANSIT_MOUNT/ *transit " || fail "$TRANSIT_MOUNT is not a Transit mount"
}

# policy_text NAME: the file with mount, prefix and environment replaced; with Transit, followed by the one for Transit.
policy_text() {
  sed -e "s#\"secret/\([a-z]*\)/gateway/production/#\"$KV_MOUNT/\1/$KV_PREFIX/$ENVIRONMENT/#" "$here/policies/$1.hcl"
  [ -z "$TRANSIT_MOUNT" ] ||
    sed -e "s#\"transit-production/#\"$TRANSIT_MOUNT/#" "$here/policies/$1-transit.hcl"
}

# policy NAME: writes it. An existing policy for other paths belongs to another deployment.
policy() {
  if present=$(vault policy read "$ROLE-$1" 2>&1); then
    other=$(printf '%s\n' "$present" | sed -n 's/^ *path  *"\([^"]*\)".*/\1/p' |
      grep -v -e "^$KV_MOUNT/[a-z]*/$KV_PREFIX/$ENVIRONMENT/" -e "^${TRANSIT_MOUNT:-//}/[a-z]*/+" | head -1 || true)
    [ -z "$other" ] ||
      fail "the policy $ROLE-$1 permits $other, which is not for $KV_PREFIX/$ENVIRONMENT in $KV_MOUNT: choose another ROLE, or set TRANSIT_MOUNT"
  else
    case $present in
      *"No policy named"*) ;;
      *) fail "cannot read the policy $ROLE-$1: $present" ;;
    esac
  fi
  policy_text "$1" | vault policy write "$ROLE-$1" -
}

enable_auth() {
  methods=$(vault auth list) || fail "cannot list the auth methods"
  if ! has_line "$methods" "$2"; then
    vault auth enable -path="$2" "$1"
  fi
}

# field NAME TEXT: a field in the output of `vault read`, or empty.
field() {
  printf '%s\n' "$2" | sed -n "s/^$1  *//p" | sed 's/^n\/a$//'
}

# read_role PATH: the existing role, or empty.
read_role() {
  if ! role=$(vault read "$1" 2>&1); then
    case $role in
      *"No value found"*) role= ;;
      *) fail "cannot read $1: $role" ;;
    esac
  fi
  if [ -z "$role" ]; then
    settings=" token_policies=$ROLE-proxy"
    return 0
  fi
  settings=
  policies=$(field token_policies "$role" | tr '[] ' '\n\n\n' | grep . || true)
  printf '%s\n' "$policies" | grep -qx -- "$ROLE-proxy" ||
    fail "$1 does not have the policy $ROLE-proxy: add it to its token_policies"
  others=$(printf '%s\n' "$policies" | grep -vx -e "$ROLE-proxy" -e default | tr '\n' ' ' || true)
  [ -z "$others" ] ||
    say "WARNING: $1 has other policies too: ${others% }. Countersign needs $ROLE-proxy only." >&2
}

# setting NAME VALUE DEFAULT: the default is for a new role; an existing role keeps settings that are not given.
setting() {
  value=$2
  [ -n "$value$role" ] || value=$3
  [ -z "$value" ] || settings="$settings $1=$value"
}

# write_role PATH: settings contain no spaces.
write_role() {
  # shellcheck disable=SC2086
  [ -z "$settings" ] || vault write "$1" $settings
}

approle() {
  enable_auth approle "$APPROLE_MOUNT"
  path=auth/$APPROLE_MOUNT/role/$ROLE
  read_role "$path"
  setting token_ttl "$TOKEN_TTL" 1h
  setting token_max_ttl "$TOKEN_MAX_TTL" 24h
  setting secret_id_ttl "$SECRET_ID_TTL" 0
  write_role "$path"
  role_id=$(vault read -field=role_id "$path/role-id") || fail "cannot read the role ID"
  say "AppRole: the role ID is $role_id"
  say "To create a secret ID:"
  say "  vault write -field=secret_id -force $path/secret-id"
}

# same NAME GIVEN PRESENT: fails if an existing configuration differs, instead of changing it.
same() {
  [ -z "$2" ] || [ "$2" = "$3" ] ||
    fail "auth/$KUBERNETES_MOUNT has another $1; set KUBERNETES_REPLACE_CONFIG=yes to replace its configuration"
}

check_config() {
  same kubernetes_host "$KUBERNETES_HOST" "$(field kubernetes_host "$config")"
  same disable_local_ca_jwt "$KUBERNETES_DISABLE_LOCAL_CA_JWT" "$(field disable_local_ca_jwt "$config")"
  if [ -n "$KUBERNETES_CA_FILE" ]; then
    ca=$(cat "$KUBERNETES_CA_FILE")
    same kubernetes_ca_cert "$ca" "$(vault read -field=kubernetes_ca_cert "auth/$KUBERNETES_MOUNT/config")"
  fi
  if [ -n "$KUBERNETES_REVIEWER_JWT_FILE" ]; then
    [ "$(field token_reviewer_jwt_set "$config")" != false ] ||
      fail "auth/$KUBERNETES_MOUNT has no token_reviewer_jwt; set KUBERNETES_REPLACE_CONFIG=yes to replace its configuration"
    say "Kubernetes: token_reviewer_jwt is unchanged; set KUBERNETES_REPLACE_CONFIG=yes to replace it"
  fi
}

# would_lose FIELD OPTION: a replacement must set every existing field.
would_lose() {
  fail "auth/$KUBERNETES_MOUNT has $1, which would be lost: set $2"
}

check_replacement() {
  [ -n "$KUBERNETES_HOST" ] || fail "KUBERNETES_REPLACE_CONFIG needs KUBERNETES_HOST"
  [ -n "$KUBERNETES_CA_FILE" ] || [ -z "$(field kubernetes_ca_cert "$config")" ] ||
    would_lose kubernetes_ca_cert KUBERNETES_CA_FILE
  [ -n "$KUBERNETES_REVIEWER_JWT_FILE" ] || [ "$(field token_reviewer_jwt_set "$config")" = false ] ||
    [ "$KUBERNETES_DISABLE_LOCAL_CA_JWT" = false ] ||
    would_lose token_reviewer_jwt KUBERNETES_REVIEWER_JWT_FILE
  [ -n "$KUBERNETES_DISABLE_LOCAL_CA_JWT" ] || [ "$(field disable_local_ca_jwt "$config")" != true ] ||
    would_lose disable_local_ca_jwt KUBERNETES_DISABLE_LOCAL_CA_JWT
  for name in issuer pem_keys; do
    case $(field "$name" "$config") in
      '' | '[]') ;;
      *) fail "auth/$KUBERNETES_MOUNT has $name, which this script would remove; use vault write" ;;
    esac
  done
  [ "$(field disable_iss_validation "$config")" != false ] ||
    fail "auth/$KUBERNETES_MOUNT validates the issuer, which this script would disable; use vault write"
}

# Vault replaces the whole configuration and does not show the reviewer token. Others may use an existing configuration,
# so it is replaced only on request, and only if every existing field is set.
kubernetes_config() {
  if config=$(vault read "auth/$KUBERNETES_MOUNT/config" 2>&1); then
    if [ "$KUBERNETES_REPLACE_CONFIG" != yes ]; then
      check_config
      return 0
    fi
    check_replacement
  else
    case $config in
      *"No value found"*) ;;
      *) fail "auth/$KUBERNETES_MOUNT/config cannot be read: $config" ;;
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
  path=auth/$KUBERNETES_MOUNT/role/$ROLE
  read_role "$path"
  setting bound_service_account_names "$KUBERNETES_SERVICE_ACCOUNT" countersign
  setting bound_service_account_namespaces "$KUBERNETES_NAMESPACE" countersign
  setting audience "$KUBERNETES_AUDIENCE" vault
  setting token_ttl "$TOKEN_TTL" 1h
  setting token_max_ttl "$TOKEN_MAX_TTL" 24h
  write_role "$path"
  say "Kubernetes: the role is $ROLE, at auth/$KUBERNETES_MOUNT"
}

if ! command -v vault >/dev/null; then
  command -v bao >/dev/null || fail "neither vault nor bao is installed"
  vault() {
    bao "$@"
  }
fi
case $ENVIRONMENT in
  '' | *[!a-z0-9-]*) fail "ENVIRONMENT must be the name of an environment, such as production, not '$ENVIRONMENT'" ;;
esac
for name in "$KV_MOUNT" "$KV_PREFIX" "$ROLE" "${TRANSIT_MOUNT:-none}"; do
  case $name in
    '' | *[!A-Za-z0-9_./-]*) fail "KV_MOUNT, KV_PREFIX, ROLE and TRANSIT_MOUNT may have letters, digits, and ._-/ only, not '$name'" ;;
  esac
done
for method in $AUTH; do
  case $method in
    approle | kubernetes) ;;
    *) fail "AUTH must be approle, kubernetes or both, not $method" ;;
  esac
done
kv
transit
policy proxy
policy platform
for method in $AUTH; do
  "$method"
done
say "Done. Vault is configured for $ENVIRONMENT: role $ROLE, policies $ROLE-proxy and $ROLE-platform."
