import type { Authenticator } from '../http/auth/authenticator.ts'
import { GatewayError } from '../errors.ts'
import type { ArtifactOptions } from '../files/artifact-options.ts'
import type { GatewayOptions, GatewayToolOptions } from '../options.ts'
import type { LiveOptions } from '../gateway/live-options.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { sourceFrom, type OptionsContext, type PlacedSource } from './configured-source.ts'
import { storeFrom } from './configured-store.ts'
import type { AuthConfig, GatewayConfig } from './gateway-config.ts'

export interface ConfiguredOptions extends AsyncDisposable {
  readonly options: GatewayOptions
  /** Those of `options`, with what they were made of. */
  readonly sources: readonly PlacedSource[]
  /** In which further sources are made. */
  readonly sourceContext: OptionsContext
  /** Closes what the options hold: the store. After the gateway. */
  close(): Promise<void>
}

/**
 * What `createGateway` takes, from a configuration. Loads only what is configured.
 *
 * @throws GatewayError `CONFIG` with the path of what cannot be right
 */
export async function gatewayOptionsFrom(
  config: GatewayConfig,
  context: OptionsContext = {},
): Promise<ConfiguredOptions> {
  const store = await storeFrom(config.store, context)
  const close = (): Promise<void> => store.close()
  const sourceContext = { ...context, isShared: store.isShared }
  try {
    const sources = await Promise.all(
      config.agents.sources.map(async (each) => {
        return { config: each, source: await sourceFrom(each, sourceContext) }
      }),
    )
    const options = {
      ...plainOptions(config),
      sources: sources.map(({ source }) => source),
      auth: await authFrom(config, store, context),
      store,
      onWarning: context.onWarning,
    }
    return { options, sources, sourceContext, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

/** What a gateway that runs can take of a configuration. */
export function liveOptionsFrom(config: GatewayConfig): LiveOptions {
  const { agents, sessions } = config
  const { ttlMs, checkMs } = agents
  const { listTtlMs: _list, pageSize: _page, prompts: _prompts, ...tools } = toolOptions(config)
  const { mode: _mode, threadTtlMs: _thread, needsInputTtlMs: _input, ...rest } = config.runs
  const { questionTimeoutMs: _question, ...runs } = rest
  const { channel: _channel, ...streaming } = config.streaming
  const { requestsPerMinutePerPrincipal, requestsPerMinutePerIp, argumentBytes } = config.limits
  const { wrongTokensPerMinutePerIp } = config.limits
  return {
    registry: { ttlMs, checkMs },
    tools,
    runs,
    streaming,
    limits: {
      requestsPerMinutePerPrincipal,
      requestsPerMinutePerIp,
      wrongTokensPerMinutePerIp,
      argumentBytes,
    },
    sessions,
  }
}

function plainOptions(config: GatewayConfig): GatewayOptions {
  const { server, http, eras, sessions, agents, runs, streaming, inline, limits } = config
  const { insecure: _insecure, ...httpOptions } = http
  const { header, proxies } = http.clientAddress
  const { breaker, ttlMs, checkMs, listChangedDebounceMs } = agents
  const { enabled: isAwaited, ...waitFor } = agents.waitFor
  return {
    server,
    http: {
      ...httpOptions,
      publicUrl: http.publicUrl ?? undefined,
      clientAddress: header === null ? undefined : { header, proxies },
      metricsPath: http.metricsPath ?? undefined,
    },
    eras,
    sessions,
    registry: {
      breaker,
      ttlMs,
      checkMs,
      debounceMs: listChangedDebounceMs,
      waitFor: isAwaited ? waitFor : undefined,
    },
    tools: toolOptions(config),
    runs,
    streaming,
    inline,
    artifacts: artifactOptions(config),
    limits,
    secrets: { stateKey: config.secrets.stateKey ?? undefined },
    anonymousPrincipal: config.auth.anonymousPrincipal,
  }
}

function toolOptions({ tools }: GatewayConfig): GatewayToolOptions {
  const { files, scope, ...extras } = tools.extras
  return { ...tools, extras: { ...extras, files: files ?? undefined, scope: scope ?? undefined } }
}

function artifactOptions({ artifacts }: GatewayConfig): ArtifactOptions {
  const { baseUrl, fetch, upload, ...options } = artifacts
  return {
    ...options,
    baseUrl: baseUrl ?? undefined,
    fetch: fetch === 'never' ? fetch : undefined,
    upload: { ...upload, linkTool: upload.linkTool ?? undefined },
  }
}

async function authFrom(
  { auth, http }: GatewayConfig,
  store: GatewayStore,
  { onWarning }: OptionsContext,
): Promise<Authenticator | undefined> {
  const resource = auth.resource ?? resourceOf(http)
  if (auth.devMode) {
    const { devModeAuth } = await import('../http/auth/dev-mode.ts')
    return devModeAuth({ principal: auth.anonymousPrincipal, onWarning })
  }
  switch (auth.mode) {
    case 'none':
      return undefined
    case 'bearer':
      return bearerFrom(auth)
    case 'jwt': {
      const { jwtAuth } = await import('../http/auth/jwt-auth.ts')
      const { issuers, principalClaim, scopesSupported } = auth
      const jwt = jwtAuth({ issuers, principalClaim, scopesSupported, resource })
      return besideTokens(auth, jwt)
    }
    case 'facade': {
      if (resource === undefined) {
        throw misfit('http.publicUrl', 'The facade needs http.publicUrl, or auth.resource')
      }
      const { facadeAuth } = await import('../http/auth/facade/facade-auth.ts')
      const { principalClaim, scopesSupported, facade } = auth
      const onError = (error: unknown): void => onWarning?.('A sign-in failed', error)
      return besideTokens(
        auth,
        facadeAuth({ ...facade, principalClaim, scopesSupported, resource, store, onError }),
      )
    }
  }
}

/** Tokens for machines, beside sign-in for people. */
async function besideTokens(auth: AuthConfig, other: Authenticator): Promise<Authenticator> {
  if (Object.keys(auth.tokens).length === 0) return other
  const { anyAuth } = await import('../http/auth/any-auth.ts')
  return anyAuth(await bearerFrom(auth), other)
}

async function bearerFrom({ tokens }: AuthConfig): Promise<Authenticator> {
  const { bearerAuth } = await import('../http/auth/bearer-auth.ts')
  return bearerAuth(tokens)
}

function resourceOf({ publicUrl, path }: GatewayConfig['http']): string | undefined {
  return publicUrl === null ? undefined : new URL(path, publicUrl).href
}

function misfit(path: string, message: string): GatewayError {
  return new GatewayError('CONFIG', message, { path })
}
