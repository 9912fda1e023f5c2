import { check, decodeText, readAtMost, untilAborted } from '@x/internal'
import type { Checks } from '@x/internal'
import { createDispatcher } from '@x/mcp-transport'
import type { Dispatcher } from '@x/mcp-transport'
import { Deadline } from '../deadline.ts'
import { assertClientOptions, McpClientError, notExecuted } from '../errors.ts'
import type { McpClientErrorCode } from '../errors.ts'
import { checkServer } from '../server-config.ts'
import {
  FieldError,
  parseFields,
  parseHeaders,
  parseJsonObject,
  parseText,
  parseUrl,
  withoutNulls,
} from '../server-fields.ts'
import {
  agentHubVariables,
  folderQueries,
  FOLDERS_PATH,
  parseFolders,
  SERVERS_PATH,
  type Folder,
} from './agenthub.ts'
import { getIdentifier } from './server-directory.ts'
import type { McpServer, McpServerDirectory, McpServerQuery } from './server-directory.ts'

export interface HttpDirectoryOptions {
  /** A server is at `{url}/{slug or name}`. @default `UIPATH_URL` with the preset `'agenthub'` */
  readonly url?: string | URL | undefined
  /** Bearer token. A function is called at each lookup. @default none */
  readonly token?: string | (() => string | Promise<string>) | undefined
  /**
   * `'agenthub'`: a service of that platform. What is not given comes from UIPATH_URL, UIPATH_FOLDER_PATH,
   * UIPATH_FOLDER_KEY, and UIPATH_ACCESS_TOKEN for the origin of UIPATH_URL only. Each lookup reads them. `'none'`: any
   * other service. @default 'agenthub' where UIPATH_URL is set and `url` is not given
   */
  readonly preset?: 'agenthub' | 'none' | undefined
  /**
   * Also send `token` to a server that this directory returns, if the server has the directory's origin
   * (scheme, host and port) and no `authorization` header. A client's own `authProvider` takes precedence. The
   * token is read again before every request. @default false: a server gets no token of the directory
   */
  readonly shareTokenWithSameOrigin?: boolean | undefined
  /** Folder of servers that are looked up without a folder. @default none */
  readonly folderPath?: string | undefined
  /** Key of that folder. Takes precedence over `folderPath` at AgentHub, and saves a request. @default none */
  readonly folderKey?: string | undefined
}

const optionChecks: Checks<HttpDirectoryOptions> = {
  url: check.url,
  token: check.or(check.string, check.func),
  preset: check.oneOf('agenthub', 'none'),
  folderPath: check.string,
  folderKey: check.string,
  shareTokenWithSameOrigin: check.flag,
}

/** Limit for one lookup, in milliseconds. */
const TIMEOUT_MS = 10_000
const MAX_RESPONSE_BYTES = 1024 * 1024

/**
 * Directory over HTTP. `GET {url}/{slug or name}` is answered with the server as JSON, such as `{ "mcpUrl": "https://…" }`,
 * or with 404. A folder is in the query, as `folderPath` and `folderKey`. The preset `'agenthub'` asks a service of that
 * platform, with the key of the folder in a header: a folder path costs one or more extra requests.
 *
 * @param from a URL is short for `{ url }`
 * @throws McpClientError `CONFIG` for an option that is unknown or cannot be used.
 * @throws McpClientError from `retrieve`: `NOT_FOUND`; `CONFIG` for a URL or token that is missing or
 * cannot be used; `UNAUTHORIZED`, `REJECTED`, `UNREACHABLE`, `TIMEOUT`, `LIMIT`, `UNEXPECTED_RESPONSE`;
 * or the reason of the query's signal.
 * @example
 * ```ts
 * import { httpDirectory, McpClient } from '@x/mcp-client'
 *
 * const directory = httpDirectory('https://directory.example/servers')
 * const client = new McpClient({ slug: 'shop', folderPath: 'Team' }, { directory })
 * ```
 */
export function httpDirectory(from: HttpDirectoryOptions | string | URL = {}): McpServerDirectory {
  const options = typeof from === 'string' || from instanceof URL ? { url: from } : from
  assertClientOptions('httpDirectory()', options, { checks: optionChecks })
  return {
    async retrieve(query) {
      const server = getIdentifier(query)
      const dispatcher = query.dispatcher ?? createDispatcher()
      using deadline = new Deadline(TIMEOUT_MS, query.signal)
      const { signal } = deadline
      try {
        return await new Lookup(options, { server, dispatcher, signal }).retrieve(query)
      } catch (error) {
        if (query.signal?.aborted === true || !signal.aborted) throw error
        const message = `The directory did not find MCP server "${server}" within ${TIMEOUT_MS} ms: try again`
        throw notExecuted('TIMEOUT', message, { server, cause: error })
      } finally {
        if (query.dispatcher === undefined) await dispatcher.destroy()
      }
    },
  }
}

interface LookupContext {
  /** Slug or name. */
  readonly server: string
  readonly dispatcher: Dispatcher
  readonly signal: AbortSignal
}

/** Where, and as whom, a lookup asks. What the options leave out comes from the platform. @throws FieldError */
function targetOf({ preset, url, token, folderPath, folderKey }: HttpDirectoryOptions) {
  const platform = agentHubVariables()
  const byDefault = url === undefined && platform.url !== undefined ? 'agenthub' : 'none'
  const isAgentHub = (preset ?? byDefault) === 'agenthub'
  const given = url ?? (isAgentHub ? platform.url : undefined)
  if (given === undefined) {
    const option = isAgentHub ? '"url" or UIPATH_URL' : '"directory"'
    throw new FieldError(`there is no directory. Set the option ${option}`)
  }
  const base = new URL(parseUrl(url === undefined ? 'UIPATH_URL' : 'url', given))
  const folder = { path: folderPath, key: folderKey }
  if (!isAgentHub) return { base, isAgentHub, token, folder }
  const isTrusted = URL.parse(platform.url ?? '')?.origin === base.origin
  return {
    base,
    isAgentHub,
    token: token ?? (isTrusted ? platform.token : undefined),
    folder: (folderPath ?? folderKey) === undefined ? platform.folder : folder,
  }
}

type Json = Readonly<Record<string, unknown>>

/** The requests of one lookup. Redirects are not followed: the token is for one host. */
class Lookup {
  readonly #options: HttpDirectoryOptions
  readonly #context: LookupContext

  constructor(options: HttpDirectoryOptions, context: LookupContext) {
    this.#options = options
    this.#context = context
  }

  async retrieve({ folderPath }: McpServerQuery): Promise<McpServer> {
    const { server } = this.#context
    const segment = toPathSegment(server)
    const { base, isAgentHub, folder: byDefault } = this.#target()
    const asked = folderPath === undefined ? byDefault : { path: folderPath, key: undefined }
    const folder = isAgentHub ? await this.#withKey(asked, base) : asked
    const url = isAgentHub
      ? below(base, `${SERVERS_PATH}/${segment}`)
      : below(base, segment, { folderPath: folder.path, folderKey: folder.key })
    const found = await this.#get(url, parseServer, isAgentHub ? folder.key : undefined)
    if (found === undefined) {
      const where = folder.path ?? folder.key
      const place = where === undefined ? 'in the directory' : `in folder "${where}"`
      const message = `No MCP server "${server}" ${place}: check the name and the folder`
      throw notExecuted('NOT_FOUND', message, { server })
    }
    return {
      ...found,
      ...(this.#sharesTokenWith(found, url) && { authProvider: { token: () => this.#token() } }),
      folderPath: found.folderPath ?? folder.path,
      folderKey: found.folderKey ?? folder.key,
    }
  }

  #sharesTokenWith({ mcpUrl }: McpServer, directory: URL): boolean {
    if (this.#options.shareTokenWithSameOrigin !== true || typeof mcpUrl !== 'string') return false
    return new URL(mcpUrl).origin === directory.origin
  }

  async #withKey({ path, key }: Folder, base: URL): Promise<Folder> {
    if (path === undefined || key !== undefined) return { path, key }
    const { server } = this.#context
    for (const query of folderQueries(path)) {
      const url = below(base, FOLDERS_PATH, query)
      const found = await this.#get(url, (body) => parseFolders(body, path))
      if (found === undefined) {
        throw this.#error('REJECTED', url, 'has no list of folders: use a folder key')
      }
      if (found.key !== undefined) return { path, key: found.key }
      if (found.isLast) break
    }
    const message = `No MCP server "${server}" in folder "${path}": there is no such folder. Check its full path`
    throw notExecuted('NOT_FOUND', message, { server })
  }

  /** Returns the parsed body of a response with status 200, or undefined for status 404. */
  async #get<T>(url: URL, parse: (body: Json) => T, folderKey?: string): Promise<T | undefined> {
    const { server, dispatcher, signal } = this.#context
    const headers = await this.#headers(folderKey)
    try {
      const { statusCode, body } = await dispatcher.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method: 'GET',
        headers,
        signal,
      })
      if (statusCode === 200) {
        const bytes = await readAtMost(body, MAX_RESPONSE_BYTES)
        if (bytes !== undefined) return parse(parseJsonObject('the body', decodeText(bytes)))
        const what = `sent more than ${MAX_RESPONSE_BYTES} bytes: check the URL`
        throw this.#error('LIMIT', url, what)
      }
      await body.dump({ limit: MAX_RESPONSE_BYTES, signal }) // lets the connection be used again
      if (statusCode === 404) return undefined
      if (statusCode !== 401 && statusCode !== 403) {
        throw this.#error('REJECTED', url, `answered with status ${statusCode}: try again later`)
      }
      const what = `refused the credentials with status ${statusCode}: check the token`
      throw this.#error('UNAUTHORIZED', url, what)
    } catch (cause) {
      if (signal.aborted) throw signal.reason
      if (McpClientError.is(cause)) throw cause
      const options = { server, cause }
      if (cause instanceof FieldError) {
        const what = `sent an invalid response: ${cause.message}`
        throw notExecuted('UNEXPECTED_RESPONSE', `${describe(url)} ${what}`, options)
      }
      const what = 'could not be reached: check the URL and the network'
      throw notExecuted('UNREACHABLE', `${describe(url)} ${what}`, options)
    }
  }

  async #headers(folderKey: string | undefined): Promise<Readonly<Record<string, string>>> {
    const token = await this.#token()
    return checkServer(this.#context.server, () =>
      parseHeaders('headers', {
        accept: 'application/json',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(folderKey !== undefined && { 'x-uipath-folderkey': folderKey }),
      }),
    )
  }

  async #token(): Promise<string | undefined> {
    const { token } = this.#target()
    if (typeof token !== 'function') return token
    return untilAborted(Promise.resolve().then(token), this.#context.signal)
  }

  #target() {
    return checkServer(this.#context.server, () => targetOf(this.#options))
  }

  #error(code: McpClientErrorCode, url: URL, what: string): McpClientError {
    return notExecuted(code, `${describe(url)} ${what}`, { server: this.#context.server })
  }
}

/** Appends a path to an address, and what is known to its query. */
function below(base: URL, path: string, query: Readonly<Record<string, string | undefined>> = {}) {
  const url = new URL(base)
  url.pathname = `${base.pathname.replace(/\/+$/, '')}/${path}`
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, value)
  }
  return url
}

/** Names the directory in messages, without the query of its URL. */
function describe({ origin, pathname }: URL): string {
  return `The directory at ${origin}${pathname}`
}

/** Percent-encodes a name as one segment of a path. `.` and `..` cannot be encoded. */
function toPathSegment(server: string): string {
  if (server === '.' || server === '..') {
    const message = `"${server}" cannot be the name of an MCP server: use its slug`
    throw notExecuted('CONFIG', message, { server })
  }
  return encodeURIComponent(server)
}

/** Fields that a response must not set: it must not start a program here or get tokens of the client. */
const LOCAL_FIELDS = new Set([
  'command',
  'arguments',
  'environmentVariables',
  'cwd',
  'authProvider',
])

const serverFields = {
  id: parseText,
  name: parseText,
  slug: parseText,
  description: parseText,
  version: parseText,
  folderPath: parseText,
  folderKey: parseText,
  mcpUrl: parseUrl,
  headers: parseHeaders,
}

/** Parses a server from a response. Keeps unknown fields, and drops `LOCAL_FIELDS` and fields that are null. */
function parseServer(body: Json): McpServer {
  const { mcpUrl, ...others } = withoutNulls(body)
  const server = Object.fromEntries(
    Object.entries(others).filter(([name]) => !LOCAL_FIELDS.has(name)),
  )
  const given = mcpUrl === '' ? server : { ...server, mcpUrl }
  return { ...server, ...parseFields(serverFields, given) }
}
