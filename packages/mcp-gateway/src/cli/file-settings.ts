// Settings of a configuration file: those of `gateway/settings.ts`, and sections that stand for objects of a program
// (sources, auth, store, log). Turns them into options of `createGateway`.
import { dirname, resolve } from 'node:path'

import { z } from 'zod'

import type { AgentSource } from '../agents/agent-source.ts'
import type { Authenticator } from '../http/auth/authenticator.ts'
import type { JwtIssuerOptions } from '../http/auth/jwt.ts'
import type { StaticToken } from '../http/auth/bearer.ts'
import { GatewayError } from '../errors.ts'
import { pathText, pickLive, type SettingPath } from '../gateway/setting-paths.ts'
import {
  bytes,
  flag,
  live,
  matching,
  ms,
  oneOf,
  registryShape,
  secret,
  section,
  settingsSchema,
  settingsShape,
  text,
  texts,
  unset,
  url,
  waitForShape,
  whole,
} from '../gateway/settings.ts'
import type {
  GatewayOptions,
  GatewaySettings,
  LiveOptions,
  RegistrySettings,
  WaitForSettings,
} from '../options.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { importAdapter } from './adapters.ts'

/** A configuration file with all defaults in place. */
export interface FileSettings extends Omit<GatewaySettings, 'registry' | 'anonymousPrincipal'> {
  /** How clients connect. `stdio`: one client, on standard input and output. */
  readonly transport: 'http' | 'stdio'
  /** Where agents come from, and how they come and go. */
  readonly agents: AgentSettings
  /** Who may call. */
  readonly auth: AuthSettings
  /** Where sessions, files and paused runs are kept. */
  readonly store: StoreSettings
  /** The log of the command. */
  readonly log: LogSettings
}

interface AgentSettings extends Omit<RegistrySettings, 'debounceMs' | 'waitFor'> {
  /** Sources of agents: `langgraph`, `langgraph-server` or `a2a`. */
  readonly sources: readonly SourceSettings[]
  /** Clients are notified of a change after this time without another change, and after four times this time at most. */
  readonly listChangedDebounceMs: number
  /** Makes first lists wait for agents. */
  readonly waitFor: FileWaitForSettings
}

interface FileWaitForSettings extends WaitForSettings {
  /** `false`: first lists wait for graphs of this process, 10 s at most, and for other agents 1 s. */
  readonly enabled: boolean
}

export type SourceSettings =
  | {
      readonly type: 'langgraph'
      /** Path of a `langgraph.json`, relative to the folder of the configuration file. */
      readonly config: string
    }
  | {
      readonly type: 'langgraph-server'
      readonly url: string
      readonly apiKey?: string | undefined
      readonly headers?: Readonly<Record<string, string>> | undefined
      readonly assistants?: readonly string[] | undefined
      readonly refreshMs?: number | undefined
      readonly timeoutMs?: number | undefined
    }
  | {
      readonly type: 'a2a'
      /** URLs of agent cards, or of agents. */
      readonly cards: readonly (string | CardSettings)[]
      readonly trustedOrigins?: readonly string[] | undefined
      readonly refreshMs?: number | undefined
      readonly timeoutMs?: number | undefined
      readonly silenceMs?: number | undefined
      readonly pollMs?: number | undefined
      readonly maxBytes?: number | undefined
    }

interface CardSettings {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Public keys (JWK) with a `kid`. */
  readonly signatureKeys?: readonly Readonly<Record<string, unknown>>[] | undefined
}

interface AuthSettings {
  /** How callers are checked. `facade`: a sign-in for people, in front of an identity service. */
  readonly mode: 'none' | 'bearer' | 'jwt' | 'facade'
  /** Principal of callers if `mode` is `none`. */
  readonly anonymousPrincipal: string
  /** Static tokens, by the name of their caller. Each has `sha256` or `token`, and may have `scopes` and `expiresAt`. */
  readonly tokens: Readonly<Record<string, StaticToken>>
  /** Issuers whose JWTs are accepted. */
  readonly issuers: readonly JwtIssuerOptions[]
  /** Claim that names the caller. */
  readonly principalClaim: string
  /** URL of this gateway in tokens. If it is left out: `http.publicUrl` with `http.path`. */
  readonly resource: string | undefined
  /** Scopes that clients should ask for. */
  readonly scopesSupported: readonly string[]
  /** Accepts every caller, for development. Works at loopback addresses only. */
  readonly devMode: boolean
  /** The authorization server of `mode: facade`. */
  readonly facade: FacadeSettings
}

interface FacadeSettings {
  /** URL of the identity service. */
  readonly upstreamUrl: string
  /** Provider of the identity service. */
  readonly provider: string
  /** PKCE with S256 is always required. */
  readonly requirePkce: boolean
  /** Time that a person has to sign in. */
  readonly stateTtlMs: number
  /** Time for which a code can be exchanged. */
  readonly codeTtlMs: number
  /** Time that the identity service has to answer. */
  readonly upstreamTimeoutMs: number
  /** URLs that codes may be sent to, besides loopback addresses. */
  readonly redirectUris: readonly string[]
}

export interface StoreSettings {
  /** `disk` survives a restart. `redis` is shared by several processes. */
  readonly type: 'memory' | 'disk' | 'redis'
  /** Folder of a store on disk, relative to the folder of the configuration file. */
  readonly dir: string | undefined
  /** URL of Redis. */
  readonly url: string | undefined
  /** Prefix of all keys in Redis. */
  readonly prefix: string
}

interface LogSettings {
  /** Least severe level that is written. */
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
  /** Standard output may carry the protocol, so the log always goes to standard error. */
  readonly to: 'stderr'
}

const HEADERS = 'headers by name'
const headers = secret(z.record(text, text, { error: HEADERS }))
const SHA256 = '64 hex digits, as `mcp-gateway token` prints them'

const source: z.ZodType<SourceSettings> = z.discriminatedUnion(
  'type',
  [
    z.strictObject({ type: z.literal('langgraph'), config: text }),
    z.strictObject({
      type: z.literal('langgraph-server'),
      url,
      apiKey: secret(text).optional(),
      headers: headers.optional(),
      assistants: texts.optional(),
      refreshMs: ms(1).optional(),
      timeoutMs: ms(1).optional(),
    }),
    z.strictObject({
      type: z.literal('a2a'),
      cards: z.array(
        z.union(
          [
            url,
            z.strictObject({
              url,
              headers: headers.optional(),
              signatureKeys: z
                .array(z.looseObject({ kty: text, kid: text }), {
                  error: 'a list of public keys (JWK)',
                })
                .optional(),
            }),
          ],
          { error: 'the URL of a card, or { url, headers }' },
        ),
        { error: 'a list of cards' },
      ),
      trustedOrigins: z.array(url, { error: 'a list of URLs' }).optional(),
      refreshMs: ms(1).optional(),
      timeoutMs: ms(1).optional(),
      silenceMs: ms(1).optional(),
      pollMs: ms(1).optional(),
      maxBytes: bytes.optional(),
    }),
  ],
  { error: 'a source with type: langgraph, langgraph-server or a2a' },
)

const token: z.ZodType<StaticToken> = z.strictObject({
  sha256: matching(/^[0-9a-f]{64}$/i, SHA256).optional(),
  token: text.optional(),
  scopes: texts.meta({ secret: false }).optional(),
  expiresAt: text.meta({ secret: false }).optional(),
})

const issuer: z.ZodType<JwtIssuerOptions> = z.strictObject({
  issuer: url,
  jwksUrl: url.optional(),
  audience: z.union([text, texts.min(1)], { error: 'an audience, or a list of them' }),
  algorithms: texts.optional(),
  clockToleranceSec: whole(0, 3600).optional(),
})

const { anonymousPrincipal, registry: _registry, ...shape } = settingsShape
const { debounceMs, ...registry } = registryShape

const sections = z.strictObject(
  {
    ...shape,
    transport: oneOf('http', 'stdio').default('http'),
    agents: section({
      ...registry,
      sources: live(z.array(source, { error: 'a list of sources' }).default([])),
      listChangedDebounceMs: debounceMs,
      waitFor: section({ enabled: flag.default(false), ...waitForShape }),
    }),
    auth: section({
      mode: oneOf('none', 'bearer', 'jwt', 'facade').default('none'),
      anonymousPrincipal,
      tokens: secret(z.record(text, token, { error: 'tokens by name' }).default({})),
      issuers: z.array(issuer, { error: 'a list of issuers' }).default([]),
      principalClaim: text.default('sub'),
      resource: unset(url),
      scopesSupported: texts.default([]),
      devMode: flag.default(false),
      facade: section({
        upstreamUrl: url.default('http://localhost:8050'),
        provider: text.default('azure'),
        requirePkce: z.literal(true, { error: 'true: only S256 there is' }).default(true),
        stateTtlMs: ms(1).default(300_000),
        codeTtlMs: ms(1).default(300_000),
        upstreamTimeoutMs: ms(1).default(10_000),
        redirectUris: texts.default([]),
      }),
    }),
    store: section({
      type: oneOf('memory', 'disk', 'redis').default('memory'),
      dir: unset(text),
      url: unset(
        z.url({ protocol: /^rediss?$/, error: 'redis://host:port, or rediss:// for TLS' }),
      ),
      prefix: text.default('mcp-gateway'),
    }),
    log: section({
      level: live(oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent').default('info')),
      to: z.literal('stderr', { error: 'stderr: stdout may be the protocol’s' }).default('stderr'),
    }),
  },
  { error: 'a section with keys of its own' },
)

/** Checks a configuration file, and fills in the defaults. */
export const fileSchema: z.ZodType<FileSettings> = sections.check(({ value, issues }) => {
  for (const { path, expected } of contradictions(value)) {
    issues.push({ code: 'custom', path: [...path], message: expected, input: value })
  }
})

interface Contradiction {
  readonly path: SettingPath
  /** Completes the sentence "… expected". */
  readonly expected: string
}

/** Finds settings that are right each alone, and wrong together. */
function* contradictions(settings: FileSettings): Generator<Contradiction> {
  yield* sharedPaths(settings)
  const { auth, store, agents } = settings
  const mode = ['auth', 'mode']
  if (auth.issuers.length > 0 && auth.mode !== 'jwt') {
    yield { path: mode, expected: 'jwt, which is the mode for auth.issuers' }
  } else if (Object.keys(auth.tokens).length > 0 && auth.mode === 'none') {
    yield { path: mode, expected: 'bearer, jwt or facade, which are the modes for auth.tokens' }
  }
  const type = ['store', 'type']
  if (store.dir !== undefined && store.type !== 'disk') {
    yield { path: type, expected: 'disk, which is the type for store.dir' }
  }
  if (store.url !== undefined && store.type !== 'redis') {
    yield { path: type, expected: 'redis, which is the type for store.url' }
  }
  // Agents would leave and come back between two searches. A search may begin a tenth later, and takes a moment.
  const refreshMs = Math.max(0, ...agents.sources.map(refreshMsOf))
  if (agents.ttlMs <= 1.2 * refreshMs) {
    const why = `a source looks for its agents every ${refreshMs} ms (refreshMs)`
    yield { path: ['agents', 'ttlMs'], expected: `more than ${1.2 * refreshMs}: ${why}` }
  }
}

const REFRESH_MS = 20_000

function refreshMsOf(settings: SourceSettings): number {
  return settings.type === 'langgraph' ? 0 : (settings.refreshMs ?? REFRESH_MS)
}

/** Finds equal URL paths: one of them would never be reached. */
function* sharedPaths({ http, artifacts }: FileSettings): Generator<Contradiction> {
  const paths: readonly (readonly [SettingPath, string | undefined])[] = [
    [['http', 'path'], http.path],
    [['http', 'health', 'path'], http.health.path],
    [['http', 'health', 'readyPath'], http.health.readyPath],
    [['http', 'metricsPath'], http.metricsPath],
  ]
  for (const [index, [path, urlPath]] of paths.entries()) {
    if (urlPath === undefined) continue
    const isFile = artifacts.enabled && urlPath.startsWith(`${artifacts.path}/`)
    const earlier = paths.slice(0, index).find(([, each]) => each === urlPath)
    const other = isFile ? 'artifacts.path' : earlier && pathText(earlier[0])
    if (other !== undefined) yield { path, expected: `a path of its own: ${other} has this one` }
  }
}

/** A source, and the settings that it was made from. */
export interface PlacedSource {
  readonly config: SourceSettings
  readonly source: AgentSource
}

/** Context in which sources and stores are made. */
export interface FileContext {
  /** The configuration file. Relative paths start at its folder. */
  readonly file: string
  /** Loads graphs again when their files are written. */
  readonly watch: boolean
  readonly onWarning: (message: string, cause?: unknown) => void
}

export interface FileOptions extends AsyncDisposable {
  readonly options: GatewayOptions
  readonly sources: readonly PlacedSource[]
  /** Makes a source, such as one that a new version of the file names. @throws GatewayError `CONFIG` */
  makeSource(settings: SourceSettings): Promise<AgentSource>
  /** Closes the store. Call it after the gateway is closed. */
  close(): Promise<void>
}

/**
 * Turns a configuration into options of `createGateway`. Loads only the code that it needs.
 *
 * @throws GatewayError `CONFIG` with the path of the wrong setting
 */
export async function toOptions(
  settings: FileSettings,
  context: FileContext,
): Promise<FileOptions> {
  const store = await makeStore(settings.store, context)
  const close = (): Promise<void> => store.close()
  try {
    const makeSource = (each: SourceSettings): Promise<AgentSource> =>
      sourceFrom(each, context, store.isShared)
    const sources = await Promise.all(
      settings.agents.sources.map(async (each) => {
        return { config: each, source: await makeSource(each) }
      }),
    )
    const options = {
      ...toSettings(settings),
      sources: sources.map((each) => each.source),
      auth: await makeAuth(settings, store, context),
      store,
      onWarning: context.onWarning,
    }
    return { options, sources, makeSource, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

/** The settings that a running gateway accepts. */
export function toLiveOptions(settings: FileSettings): LiveOptions {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the marks of the schema and LiveOptions name the same settings
  return pickLive(settingsSchema, toSettings(settings)) as LiveOptions
}

function toSettings(settings: FileSettings): GatewaySettings {
  const { transport: _, log: _log, store: _store, auth, agents, ...same } = settings
  const { sources: _sources, listChangedDebounceMs, waitFor, ...rest } = agents
  const { enabled, ...limits } = waitFor
  return {
    ...same,
    registry: {
      ...rest,
      debounceMs: listChangedDebounceMs,
      waitFor: enabled ? limits : undefined,
    },
    anonymousPrincipal: auth.anonymousPrincipal,
  }
}

async function sourceFrom(
  settings: SourceSettings,
  { file, watch, onWarning }: FileContext,
  isShared: boolean,
): Promise<AgentSource> {
  switch (settings.type) {
    case 'langgraph': {
      const { langGraphSource } = await import('../agents/langgraph/lang-graph-source.ts')
      return langGraphSource(resolve(dirname(file), settings.config), {
        watch,
        isShared,
        onWarning,
      })
    }
    case 'langgraph-server': {
      const { langGraphServerSource } =
        await import('../agents/langgraph-server/lang-graph-server-source.ts')
      const { type: _, ...options } = settings
      return langGraphServerSource({ ...options, onWarning })
    }
    case 'a2a': {
      const adapter = { folder: dirname(file), path: 'agents.sources' }
      const { a2aSource } = await importAdapter('@x/mcp-gateway-a2a', adapter)
      if (typeof a2aSource !== 'function') throw new TypeError('a2aSource is not a function')
      const { type: _, ...options } = settings
      return Reflect.apply(a2aSource, undefined, [{ ...options, onWarning }])
    }
  }
}

/** @throws GatewayError `CONFIG` with the path of the missing setting */
export async function makeStore(
  { type, dir, url: redisUrl, prefix }: StoreSettings,
  { file, onWarning }: Omit<FileContext, 'watch'>,
): Promise<GatewayStore> {
  const onError = (error: unknown): void => onWarning('A listener of the store failed', error)
  switch (type) {
    case 'memory': {
      const { MemoryGatewayStore } = await import('../store/memory-store.ts')
      return new MemoryGatewayStore({ onError })
    }
    case 'disk': {
      if (dir === undefined) throw missing('store.dir', 'A store on disk needs a folder: store.dir')
      const { DiskGatewayStore } = await import('../store/sqlite-store.ts')
      return new DiskGatewayStore(resolve(dirname(file), dir), { onError })
    }
    case 'redis': {
      if (redisUrl === undefined) {
        throw missing('store.url', 'A store in Redis needs its store.url')
      }
      const adapter = { folder: dirname(file), path: 'store.type' }
      const { redisStore } = await importAdapter('@x/mcp-gateway-redis', adapter)
      if (typeof redisStore !== 'function') throw new TypeError('redisStore is not a function')
      const onRates = (error: unknown): void =>
        onWarning('Redis is down: each process counts rates for itself', error)
      const options = { url: redisUrl, prefix, onError, onWarning: onRates }
      return Reflect.apply(redisStore, undefined, [options])
    }
  }
}

async function makeAuth(
  { auth, http }: FileSettings,
  store: GatewayStore,
  { file, onWarning }: FileContext,
): Promise<Authenticator | undefined> {
  const { mode, issuers, principalClaim, scopesSupported, facade } = auth
  const endpoint = http.publicUrl && new URL(http.path, http.publicUrl).href
  const resource = auth.resource ?? endpoint
  if (auth.devMode) {
    const { devModeAuth } = await import('../http/auth/combine.ts')
    return devModeAuth({ principal: auth.anonymousPrincipal, onWarning })
  }
  switch (mode) {
    case 'none':
      return undefined
    case 'bearer':
      return makeBearerAuth(auth)
    case 'jwt': {
      const { jwtAuth } = await import('../http/auth/jwt.ts')
      return withTokens(auth, jwtAuth({ issuers, principalClaim, scopesSupported, resource }))
    }
    case 'facade': {
      if (resource === undefined) {
        throw missing('http.publicUrl', 'The facade needs http.publicUrl, or auth.resource')
      }
      const adapter = { folder: dirname(file), path: 'auth.mode' }
      const { oauthFacade } = await importAdapter('@x/mcp-gateway-oauth', adapter)
      if (typeof oauthFacade !== 'function') throw new TypeError('oauthFacade is not a function')
      const onError = (error: unknown): void => onWarning('A sign-in failed', error)
      const options = { ...facade, principalClaim, scopesSupported, resource, store, onError }
      return withTokens(auth, Reflect.apply(oauthFacade, undefined, [options]))
    }
  }
}

/** Accepts tokens for machines besides the sign-in of people. */
async function withTokens(auth: AuthSettings, other: Authenticator): Promise<Authenticator> {
  if (Object.keys(auth.tokens).length === 0) return other
  const { anyAuth } = await import('../http/auth/combine.ts')
  return anyAuth(await makeBearerAuth(auth), other)
}

async function makeBearerAuth({ tokens }: AuthSettings): Promise<Authenticator> {
  const { bearerAuth } = await import('../http/auth/bearer.ts')
  return bearerAuth(tokens)
}

function missing(path: string, message: string): GatewayError {
  return new GatewayError('CONFIG', message, { path })
}
