// Settings of a configuration file: those of `options.ts`, and sections that stand for objects of a program
// (sources, auth, store, log). Turns them into options of `createGateway`.
import { resolve } from 'node:path'

import { z } from 'zod'

import type { AgentSource } from '../agents/agent.ts'
import type { Authenticator } from '../http/auth/authenticator.ts'
import type { JwtIssuerOptions } from '../http/auth/jwt.ts'
import type { StaticToken } from '../http/auth/bearer.ts'
import type { ExchangeClient, ExchangeTarget } from '../http/auth/token-exchange.ts'
import { EXCHANGE_PROFILE_NAMES, type ExchangeProfileName } from '../http/auth/exchange-profiles.ts'
import { GatewayError } from '../errors.ts'
import type { SettingPath } from '../gateway/setting-paths.ts'
import { ARTIFACTS_PATH } from '../http/artifact-routes.ts'
import { secureUrlFrom } from '../http/auth/authenticator.ts'
import { endpointPaths, publicUrlsOf } from '../http/public-url.ts'
import { HEALTH_PATH, READY_PATH } from '../http/router.ts'
import {
  headers,
  oneOf,
  secret,
  section,
  text,
  texts,
  unset,
  url,
} from '../internal/setting-kinds.ts'
import type { CredentialsProvider } from '../internal/user-credentials.ts'
import {
  settingsShape,
  type GatewayOptions,
  type GatewaySettings,
  type HttpSettings,
} from '../options.ts'
import type { RunEngine } from '../runs/engine.ts'
import type { GatewayStore } from '../store/gateway-store.ts'
import { PACKAGES, type FileSections, type SectionContext } from './file-sections.ts'

/** A configuration file with all defaults in place. */
export interface FileSettings extends GatewaySettings {
  /** Where agents come from: `langgraph`, `langgraph-server` or `a2a`. */
  readonly sources: readonly SourceSettings[]
  /** Who may call: callers with one of `tokens`, with a JWT of one of `issuers`, or signed in by `facade`. @default all who can connect */
  readonly auth: AuthSettings | undefined
  /** How agents get tokens for other servers in the name of the caller. @default agents cannot act for users */
  readonly credentials: CredentialSettings | undefined
  /** Where sessions, files and paused runs are kept: in the folder `dir`, in the Redis at `url`, which several processes share, or in memory. */
  readonly store: StoreSettings
  /** The log of the command. */
  readonly log: LogSettings
}

/** Settings of a source. The section of its type defines them. */
interface SourceSettings extends Readonly<Record<string, unknown>> {
  readonly type: string
}

interface AuthSettings {
  /** Static tokens, by the name of their caller. For machines, also beside `issuers` or `facade`. */
  readonly tokens: Readonly<Record<string, StaticToken>> | undefined
  /** Issuers whose JWTs are accepted. */
  readonly issuers: readonly JwtIssuerOptions[] | undefined
  /** Claim that names the caller. */
  readonly principalClaim: string
  /** Scopes that clients should ask for. */
  readonly scopesSupported: readonly string[]
  /** A sign-in for people, in front of an identity service. */
  readonly facade: unknown
}

/** Settings of `tokenExchange()`. */
interface CredentialSettings extends ExchangeClient {
  /** Servers by resource, which is usually the URL of the MCP endpoint. Tokens for others are refused. */
  readonly targets: Readonly<Record<string, ExchangeTarget>>
  /** Dialect of the token endpoint. @default rfc8693 */
  readonly profile?: ExchangeProfileName | undefined
}

/** Settings of a store, which is in memory without `dir` and `url`. Other keys belong to the package of `url`. */
interface StoreSettings extends Readonly<Record<string, unknown>> {
  /** Folder of a store that survives a restart, relative to this file. */
  readonly dir: string | undefined
  readonly url?: unknown
}

interface LogSettings {
  /** Least severe level that is written. */
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

/** Settings of a source with `type: langgraph`. */
interface LangGraphSettings {
  /** Path of a `langgraph.json`, relative to this file. */
  readonly config: string
  /** Context of the runs, for graphs with a context schema. */
  readonly context?: Readonly<Record<string, unknown>> | undefined
  /** Fields of the context that callers may give, as the parameter `context` of the tool. */
  readonly callerContext?: readonly string[] | undefined
}

const contextShape = {
  context: z.record(z.string(), z.unknown()).optional(),
  callerContext: texts.optional(),
}

const langgraph: z.ZodObject<{
  readonly [Key in keyof LangGraphSettings]-?: z.ZodType<LangGraphSettings[Key]>
}> = z.strictObject({ config: text, ...contextShape })

const langgraphServer = z.strictObject({
  url,
  headers: headers.optional(),
  resource: text.optional(),
  assistants: texts.optional(),
  ...contextShape,
})

/** Sources that need no other package. */
export const OWN_SOURCES: FileSections['sources'] = {
  langgraph: {
    schema: langgraph,
    create: async (settings, { folder, isShared }) => {
      const { langGraphSource } = await import('../agents/langgraph/source.ts')
      const { config, ...context } = langgraph.parse(settings)
      return langGraphSource(resolve(folder, config), { ...context, isShared })
    },
  },
  'langgraph-server': {
    schema: langgraphServer,
    create: async (settings) => {
      const { langGraphServerSource } = await import('../agents/langgraph-server.ts')
      return langGraphServerSource(langgraphServer.parse(settings))
    },
  },
}

const token: z.ZodType<StaticToken> = z.strictObject({
  token: secret(text),
  scopes: texts.optional(),
  expiresAt: text.optional(),
})

const issuer: z.ZodType<JwtIssuerOptions> = z.strictObject({
  issuer: url,
  jwksUrl: url.optional(),
  audience: z.union([text, texts.min(1)], { error: 'an audience, or a list of them' }),
})

const client = { tokenUrl: url, clientId: text, clientSecret: secret(text) }

const target: z.ZodType<ExchangeTarget> = z.strictObject({
  audience: text.optional(),
  scopes: texts.optional(),
  authorizationServer: z.strictObject(client).optional(),
})

const credentials: z.ZodType<CredentialSettings> = z.strictObject({
  ...client,
  targets: z.record(text, target, { error: 'servers by resource' }),
  profile: oneOf(...EXCHANGE_PROFILE_NAMES).optional(),
})

/** Returns the schema of files that use these sections. It checks a file, and fills in the defaults. */
export function toFileSchema(sections: FileSections): z.ZodType<FileSettings> {
  const words = [...Object.keys(OWN_SOURCES), ...Object.keys(PACKAGES.sources)]
  const [first, ...others] = words.map((word): z.ZodObject<{ type: z.ZodLiteral<string> }> => {
    const own = { ...OWN_SOURCES, ...sections.sources }[word]
    const type = z.literal(word)
    // No section: the file has no such source, or its package is not installed.
    return own ? own.schema.extend({ type }) : z.looseObject({ type })
  })
  if (first === undefined) throw new Error('There is no kind of source')
  const source: z.ZodType<SourceSettings> = z.discriminatedUnion('type', [first, ...others], {
    error: `a source with type: ${words.slice(0, -1).join(', ')} or ${words.at(-1)}`,
  })
  const [store] = Object.values(sections.store)
  const [auth] = Object.values(sections.auth)
  return z
    .strictObject(
      {
        ...settingsShape,
        sources: z.array(source, { error: 'a list of sources' }).default([]),
        auth: unset(
          z.strictObject(
            {
              tokens: unset(z.record(text, token, { error: 'tokens by name' })),
              issuers: unset(z.array(issuer, { error: 'a list of issuers' })),
              principalClaim: text.default('sub'),
              scopesSupported: texts.default([]),
              facade: unset(auth ? auth.schema : z.unknown()),
            },
            { error: 'a section with keys of its own' },
          ),
        ),
        credentials: unset(credentials),
        store: section({
          dir: unset(text),
          url: unset(z.undefined()),
          ...store?.schema.shape,
        }),
        log: section({
          level: oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent').default('info'),
        }),
      },
      { error: 'a section with keys of its own' },
    )
    .check(({ value, issues }) => {
      // A contradiction in a section with a mistake may come from the mistake.
      const wrong = new Set(issues.map(({ path }) => path?.[0]))
      for (const { path, expected } of contradictions(value)) {
        if (wrong.has(path[0])) continue
        issues.push({ code: 'custom', path: [...path], message: expected, input: value })
      }
    })
}

interface Contradiction {
  readonly path: SettingPath
  /** Completes the sentence "… expected". */
  readonly expected: string
}

/** Finds settings that are valid alone and wrong together. */
function* contradictions(settings: FileSettings): Generator<Contradiction> {
  yield* sharedPaths(settings)
  const { auth, credentials: forUsers, store } = settings
  const { facade, issuers, tokens } = auth ?? {}
  if (issuers !== undefined && facade !== undefined) {
    yield { path: ['auth', 'issuers'], expected: 'left out beside auth.facade' }
  } else if (forUsers !== undefined && issuers === undefined && facade === undefined) {
    yield { path: ['auth'], expected: 'a section with issuers or facade, which credentials need' }
  } else if (auth !== undefined && (tokens ?? issuers ?? facade) === undefined) {
    yield { path: ['auth'], expected: 'a section with tokens, issuers or facade' }
  }
  if (store.dir !== undefined && store.url !== undefined) {
    yield { path: ['store', 'dir'], expected: 'left out beside store.url' }
  }
}

/** Finds equal URL paths: one of them would never be reached. */
function* sharedPaths({ http, artifacts }: FileSettings): Generator<Contradiction> {
  const owners = new Map([
    [HEALTH_PATH, 'the health probe'],
    [READY_PATH, 'the readiness probe'],
  ])
  // Another check refuses a value that is not a URL.
  const publicUrl = URL.canParse(http.publicUrl ?? '') ? http.publicUrl : undefined
  for (const key of ['path', 'metricsPath'] as const) {
    const urlPath = http[key]
    if (urlPath === undefined) continue
    const isFile = artifacts.quota > 0 && urlPath.startsWith(`${ARTIFACTS_PATH}/`)
    const other = isFile ? 'artifacts' : owners.get(urlPath)
    if (other !== undefined) {
      yield { path: ['http', key], expected: `a path of its own: ${other} has this one` }
    }
    const taken = key === 'path' ? endpointPaths(publicUrl, urlPath) : [urlPath]
    for (const each of taken) owners.set(each, `http.${key}`)
  }
}

/** Makes a part of the options. Returns `undefined` if it cannot be made and the other parts are to be made. */
export type Attempt = <T>(make: () => T | Promise<T>) => Promise<T | undefined>

/** Context in which sources and stores are made. */
export interface FileContext extends SectionContext {
  readonly sections: FileSections
  /** @default the first failure ends it */
  readonly attempt?: Attempt
}

/** Options of a gateway. Dispose of them after the gateway is closed: that closes the engine and the store. */
export interface FileOptions extends AsyncDisposable {
  readonly options: GatewayOptions & { readonly sources: readonly AgentSource[] }
  /** Place of each of `options.sources`. */
  readonly sourcePaths: readonly string[]
}

/**
 * Turns a configuration into options of `createGateway`. Loads only the code that it needs.
 *
 * @throws GatewayError `CONFIG` with the path of the wrong setting, unless `attempt` catches it
 */
export async function toOptions(
  settings: FileSettings,
  context: FileContext,
): Promise<FileOptions> {
  const { attempt = async (make) => make() } = context
  const store =
    (await attempt(() => makeStore(settings.store, context))) ?? (await memoryStore(context))
  let engine: (RunEngine & AsyncDisposable) | undefined
  const close = async (): Promise<void> => {
    await engine?.[Symbol.asyncDispose]()
    await store.close()
  }
  try {
    const { folder, onWarning, sections } = context
    const { dir: _, ...ofPackage } = settings.store
    engine = await attempt(() => {
      const shared = ofPackage.url === undefined ? undefined : sections.store['redis']
      return shared?.createEngine?.(ofPackage, { folder, onWarning })
    })
    const made = { folder, isShared: store.isShared }
    const kinds = { ...OWN_SOURCES, ...sections.sources }
    const sources = await Promise.all(
      settings.sources.map(({ type, ...own }, index) => {
        const path = `sources[${index}]`
        return attempt(() =>
          withPath(path, async () => {
            return { path, source: await sectionOf(kinds, type).create(own, made) }
          }),
        )
      }),
    )
    const present = sources.filter((each) => each !== undefined)
    const options = {
      ...toSettings(settings, folder),
      sources: present.map(({ source }) => source),
      auth: await makeAuth(settings, store, { ...context, attempt }),
      credentials: await attempt(() => makeCredentials(settings)),
      store,
      engine,
    }
    const sourcePaths = present.map(({ path }) => path)
    return { options, sourcePaths, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

function toSettings(settings: FileSettings, folder: string): GatewaySettings {
  const { log: _log, store: _store, auth: _auth, sources: _sources, ...rest } = settings
  const { credentials: _credentials, ...same } = rest
  const { skillFolder } = same
  return { ...same, skillFolder: skillFolder && resolve(folder, skillFolder) }
}

async function memoryStore({ onWarning }: FileContext): Promise<GatewayStore> {
  const { MemoryGatewayStore } = await import('../store/memory-store.ts')
  return new MemoryGatewayStore({ onError: onStoreError(onWarning) })
}

function onStoreError(onWarning: SectionContext['onWarning']) {
  return (error: unknown): void => onWarning('The store failed in the background', error)
}

async function makeStore(
  { dir, ...own }: StoreSettings,
  context: FileContext,
): Promise<GatewayStore> {
  const { folder, onWarning, sections } = context
  if (dir !== undefined) {
    const { DiskGatewayStore } = await import('../store/sqlite-store.ts')
    return new DiskGatewayStore(resolve(folder, dir), { onError: onStoreError(onWarning) })
  }
  if (own.url === undefined) return memoryStore(context)
  return withPath('store', async () => {
    return sectionOf(sections.store, 'redis').create(own, { folder, onWarning })
  })
}

async function makeCredentials({
  credentials: options,
}: FileSettings): Promise<CredentialsProvider | undefined> {
  if (options === undefined) return undefined
  const { tokenExchange } = await import('../http/auth/token-exchange.ts')
  return tokenExchange(options)
}

/** Makes each part alone first, so that `attempt` sees the mistakes of all of them. */
async function makeAuth(
  { auth, http }: FileSettings,
  store: GatewayStore,
  { folder, onWarning, sections, attempt }: FileContext & { readonly attempt: Attempt },
): Promise<Authenticator | undefined> {
  if (auth === undefined) return undefined
  const { facade, issuers, principalClaim, scopesSupported, tokens = {} } = auth
  const { bearerAuth, hashedTokenFrom } = await import('../http/auth/bearer.ts')
  const isWrong: boolean[] = []
  for (const [name, each] of Object.entries(tokens)) {
    isWrong.push((await attempt(() => hashedTokenFrom(name, each))) === undefined)
  }
  const forMachinesOnly = issuers === undefined && facade === undefined
  const people = await attempt(async () => {
    if (forMachinesOnly) return isWrong.includes(true) ? undefined : bearerAuth(tokens)
    const resource = endpointOf(http)
    if (issuers !== undefined) {
      const { jwtAuth } = await import('../http/auth/jwt.ts')
      const all = { principalClaim, scopesSupported, resource }
      for (const [index, each] of issuers.entries()) {
        const path = `auth.issuers[${index}]`
        const alone = (): Promise<Authenticator> =>
          withPath(path, async () => jwtAuth({ ...all, issuers: [each] }))
        isWrong.push((await attempt(alone)) === undefined)
      }
      return isWrong.includes(true) ? undefined : jwtAuth({ ...all, issuers })
    }
    if (resource === undefined) {
      const path = 'http.publicUrl'
      throw new GatewayError('CONFIG', 'auth.facade needs http.publicUrl', { path })
    }
    const context = { folder, onWarning, store, resource, principalClaim, scopesSupported }
    return sectionOf(sections.auth, 'facade').create(facade, context)
  })
  // Tokens are for machines, besides the sign-in of people.
  if (!people || isWrong.includes(true)) return undefined
  if (forMachinesOnly || Object.keys(tokens).length === 0) return people
  const { anyAuth } = await import('../http/auth/combine.ts')
  return anyAuth(bearerAuth(tokens), people)
}

/** @throws GatewayError `CONFIG` for an address at which tokens would be sent without encryption */
function endpointOf({ path, publicUrl }: HttpSettings): string | undefined {
  if (publicUrl === undefined) return undefined
  const { endpoint } = publicUrlsOf(publicUrl, path)
  return secureUrlFrom(endpoint, 'http.publicUrl').href
}

/** Gives errors of a section its path, because a section does not know its place in the file. */
async function withPath<T>(path: string, make: () => Promise<T>): Promise<T> {
  try {
    return await make()
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    throw new GatewayError(error.code, error.message, { path, cause: error.cause })
  }
}

function sectionOf<T>(sections: Readonly<Record<string, T>>, word: string): T {
  const found = sections[word]
  if (found === undefined) throw new GatewayError('CONFIG', `There is no section "${word}"`)
  return found
}
