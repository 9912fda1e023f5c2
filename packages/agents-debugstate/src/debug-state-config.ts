/** A bearer token, or a function that is asked before every request. `undefined` sends none. */
export type DebugStateToken = string | (() => string | undefined | Promise<string | undefined>)

/** Where the service is, and on whose behalf. Each field falls back to the environment on its own. */
export interface DebugStateConfigOptions {
  /**
   * Address of the service, path allowed, without query and credentials.
   * @default DEBUGSTATE_URL, else UIPATH_URL
   */
  readonly baseUrl?: string | undefined
  /** Whose sessions: the same in every process that shall go on with them. @default DEBUGSTATE_AGENT_ID, else UIPATH_PROJECT_ID */
  readonly agentId?: string | undefined
  /**
   * @default DEBUGSTATE_TOKEN, else UIPATH_ACCESS_TOKEN where `baseUrl` has the origin of UIPATH_URL:
   * a token that was issued for one host is never sent to another
   */
  readonly token?: DebugStateToken | undefined
  /** Path between `baseUrl` and the agent id. @default 'agenthub_/design/debugstate' */
  readonly pathPrefix?: string | undefined
}

/** A complete configuration. */
export interface DebugStateConfig {
  /** Of the service: `https://state.example`. */
  readonly origin: string
  /** Path up to, and without, the agent id; neither starts empty nor ends with a slash. */
  readonly path: string
  /** Whose sessions; not encoded. */
  readonly agentId: string
  readonly token: DebugStateToken | undefined
}

export type DebugStateEnvironment = Readonly<Record<string, string | undefined>>

const DEFAULT_PATH_PREFIX = 'agenthub_/design/debugstate'

/**
 * The configuration, or what is missing from it, in words for a log.
 *
 * @throws TypeError when the `baseUrl` *option* is not an http(s) URL. The same in an environment
 * variable only switches persistence off: whoever set it is not the one who runs this code.
 */
export function debugStateConfigFrom(
  options: DebugStateConfigOptions,
  env: DebugStateEnvironment,
): DebugStateConfig | { readonly missing: string } {
  const { pathPrefix = DEFAULT_PATH_PREFIX } = options
  const agentId = options.agentId || env['DEBUGSTATE_AGENT_ID'] || env['UIPATH_PROJECT_ID']
  const address = options.baseUrl || env['DEBUGSTATE_URL'] || env['UIPATH_URL']
  if (!address) return { missing: 'no service address: set `baseUrl` or DEBUGSTATE_URL' }
  const url = httpUrlFrom(address)
  if (url === undefined) {
    if (options.baseUrl) throw new TypeError(`\`baseUrl\` must be ${ADDRESS_RULE}`)
    const name = env['DEBUGSTATE_URL'] ? 'DEBUGSTATE_URL' : 'UIPATH_URL'
    return { missing: `${name} must be ${ADDRESS_RULE}` }
  }
  if (!agentId) return { missing: 'no agent id: set `agentId` or DEBUGSTATE_AGENT_ID' }
  return {
    origin: url.origin,
    path: `/${[url.pathname, pathPrefix].map(withoutOuterSlashes).filter(Boolean).join('/')}`,
    agentId,
    token: options.token ?? tokenFor(url, env),
  }
}

const ADDRESS_RULE = 'an http(s) URL without query, fragment, user and password'

function httpUrlFrom(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const plain = !url.search && !url.hash && !url.username && !url.password
  return plain && /^https?:$/.test(url.protocol) ? url : undefined
}

function tokenFor(url: URL, env: DebugStateEnvironment): string | undefined {
  if (env['DEBUGSTATE_TOKEN']) return env['DEBUGSTATE_TOKEN']
  const home = httpUrlFrom(env['UIPATH_URL'] ?? '')
  return home?.origin === url.origin ? env['UIPATH_ACCESS_TOKEN'] || undefined : undefined
}

function withoutOuterSlashes(path: string): string {
  return path.replace(/^\/+|\/+$/g, '')
}
