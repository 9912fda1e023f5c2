import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import { createDispatcher } from '@x/mcp-transport'
import type { Dispatcher } from '@x/mcp-transport'
import { Deadline } from '../deadline.ts'
import { assertClientOptions } from '../mcp-client-error.ts'
import type { McpClientErrorCode } from '../mcp-client-error.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'
import { askDirectory, directoryError } from './directory-request.ts'
import type { DirectoryAnswer } from './directory-request.ts'
import type { Environment } from './expanded.ts'
import { folderKeyFrom, FOLDERS_PER_PAGE } from './folder-page.ts'
import { identifierOf, lookupError } from './lookup-error.ts'
import type { McpServer } from './mcp-server.ts'
import { serverFrom } from './server-answer.ts'
import { FieldError, headersFrom, urlFrom } from './server-fields.ts'
import type { McpServerDirectory, McpServerQuery } from './server-directory.ts'

/** Each that is not given is taken from the environment, at the time of the lookup. */
export interface HttpDirectoryOptions {
  /** Above `agenthub_/api/servers`, with the path of organization and tenant. @default `UIPATH_URL` */
  readonly baseUrl?: string | URL | undefined
  /** Sent as bearer token; a function is asked at each lookup. @default `UIPATH_ACCESS_TOKEN`, or none */
  readonly token?: string | (() => string | Promise<string>) | undefined
  /**
   * Also send `token` to a server that this directory names, if it has the directory's origin (scheme, host
   * and port) and no `authorization` header of its own. A client's own `authProvider` comes first. The token
   * is asked for before every request. @default false: a server gets no token that it was not given
   */
  readonly shareTokenWithSameOrigin?: boolean | undefined
  /** The folder of servers that are asked for without one. @default `UIPATH_FOLDER_PATH` */
  readonly folderPath?: string | undefined
  /** The same by its key, which saves a request; comes before `folderPath`. @default `UIPATH_FOLDER_KEY` */
  readonly folderKey?: string | undefined
  /** Stays the caller's to close. @default that of the client, if it was given one, or one per lookup */
  readonly dispatcher?: Dispatcher | undefined
  /** For one lookup, in milliseconds. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** @default `process.env` */
  readonly environment?: Environment | undefined
}

const optionChecks: Checks<HttpDirectoryOptions> = {
  baseUrl: check.url,
  token: { takes: 'a string or a function', accepts: isToken },
  folderPath: check.string,
  folderKey: check.string,
  dispatcher: check.dispatcher,
  timeoutMs: check.number(),
  shareTokenWithSameOrigin: check.flag,
  environment: check.record,
}

function isToken(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'function'
}

const TIMEOUT_MS = 10_000
const MOST_PAGES = 20
const FOLDER_HEADER = 'x-uipath-folderkey'

/**
 * Servers of an AgentHub: found by slug or display name in one folder. A folder that is named by its path
 * is looked for first, because servers are asked for with its key.
 *
 * @param from a URL is short for `{ baseUrl }`
 * @throws McpClientError `CONFIG` for an option that is unknown or cannot be used.
 * @throws McpClientError from `retrieve`: `NOT_FOUND`; `CONFIG` for a base URL or token that is missing or
 * cannot be used; `UNAUTHORIZED`, `REJECTED`, `UNREACHABLE`, `TIMEOUT`, `LIMIT`, `UNEXPECTED_RESPONSE`;
 * or the reason of the query's signal.
 */
export function httpDirectory(from: HttpDirectoryOptions | string | URL = {}): McpServerDirectory {
  const options = typeof from === 'string' || from instanceof URL ? { baseUrl: from } : from
  assertClientOptions('httpDirectory()', options, { checks: optionChecks })
  return {
    async retrieve(query) {
      const { timeoutMs = TIMEOUT_MS } = options
      const server = identifierOf(query)
      const given = options.dispatcher ?? query.dispatcher
      const dispatcher = given ?? createDispatcher()
      using deadline = new Deadline(timeoutMs, query.signal)
      const { signal } = deadline
      try {
        return await new Lookup({ ...options, server, dispatcher, signal }).retrieve(query)
      } catch (error) {
        if (query.signal?.aborted === true || !signal.aborted) throw error
        const message = `MCP server "${server}" was not found within ${timeoutMs} ms`
        throw lookupError('TIMEOUT', message, { server, cause: error })
      } finally {
        if (given === undefined) await dispatcher.destroy()
      }
    },
  }
}

interface LookupContext extends HttpDirectoryOptions {
  readonly server: string
  readonly dispatcher: Dispatcher
  readonly signal: AbortSignal
}

interface Folder {
  readonly path?: string | undefined
  readonly key?: string | undefined
}

/** One question, and what has to be asked before it. */
class Lookup {
  readonly #context: LookupContext
  readonly #environment: Environment

  constructor(context: LookupContext) {
    this.#context = context
    this.#environment = context.environment ?? process.env
  }

  async retrieve({ folderPath }: McpServerQuery): Promise<McpServer> {
    const { server } = this.#context
    const folder = await this.#folder(folderPath)
    const path = `agenthub_/api/servers/${segmentFrom(server)}`
    const url = this.#url(path)
    const answer = await this.#ask(url, folder.key)
    if (answer.status === 404) {
      const where = folder.path ?? folder.key
      const place = where === undefined ? 'in the directory' : `in folder "${where}"`
      throw lookupError('NOT_FOUND', `No MCP server "${server}" ${place}`, { server })
    }
    const found = this.#checked('UNEXPECTED_RESPONSE', () => serverFrom(answer.body), url)
    return {
      ...found,
      ...(this.#sharesTokenWith(found, url)
        ? { authProvider: { token: () => this.#token() } }
        : {}),
      folderPath: found.folderPath ?? folder.path,
      folderKey: found.folderKey ?? folder.key,
    }
  }

  #sharesTokenWith({ mcpUrl }: McpServer, directory: URL): boolean {
    if (this.#context.shareTokenWithSameOrigin !== true || typeof mcpUrl !== 'string') return false
    return new URL(mcpUrl).origin === directory.origin
  }

  /** The nearest source that names one counts; within it the key, which needs no question. */
  async #folder(asked: string | undefined): Promise<Folder> {
    const { folderPath, folderKey } = this.#context
    const sources: readonly Folder[] = [
      { path: asked },
      { path: folderPath, key: folderKey },
      { path: this.#variable('UIPATH_FOLDER_PATH'), key: this.#variable('UIPATH_FOLDER_KEY') },
    ]
    const folder = sources.find(({ path, key }) => (path ?? key) !== undefined) ?? {}
    const { path, key } = folder
    return path === undefined || key !== undefined ? folder : { path, key: await this.#keyOf(path) }
  }

  async #keyOf(path: string): Promise<string> {
    const { server } = this.#context
    const url = this.#url('orchestrator_/api/FoldersNavigation/GetFoldersForCurrentUser')
    url.searchParams.set('searchText', path.split('/').at(-1) ?? path)
    url.searchParams.set('take', String(FOLDERS_PER_PAGE))
    for (let page = 0; page < MOST_PAGES; page++) {
      url.searchParams.set('skip', String(page * FOLDERS_PER_PAGE))
      // Page by page: most often the first one has it.
      const { status, body } = await this.#ask(url)
      if (status === 404) throw directoryError('REJECTED', 'knows no folders', { url, server })
      const { key, isLast } = this.#checked(
        'UNEXPECTED_RESPONSE',
        () => folderKeyFrom(body, path),
        url,
      )
      if (key !== undefined) return key
      if (isLast) break
    }
    const message = `No MCP server "${server}" in folder "${path}": there is no such folder`
    throw lookupError('NOT_FOUND', message, { server })
  }

  /** An answer with 200 or 404; anything else is an error. */
  async #ask(url: URL, folderKey?: string): Promise<DirectoryAnswer> {
    const { server, dispatcher, signal } = this.#context
    const token = await this.#token()
    const given = {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(folderKey === undefined ? {} : { [FOLDER_HEADER]: folderKey }),
    }
    const headers = this.#checked('CONFIG', () => headersFrom('headers', given), url)
    const answer = await askDirectory({ url, headers, dispatcher, signal, server })
    const { status } = answer
    if (status === 200 || status === 404) return answer
    const isRefusal = status === 401 || status === 403
    const what = isRefusal ? `refused the credentials with status ${status}` : `answered ${status}`
    throw directoryError(isRefusal ? 'UNAUTHORIZED' : 'REJECTED', what, { url, server })
  }

  async #token(): Promise<string | undefined> {
    const { token, signal } = this.#context
    if (typeof token !== 'function') return token ?? this.#variable('UIPATH_ACCESS_TOKEN')
    return settledOrAborted(Promise.resolve().then(token), signal)
  }

  #url(path: string): URL {
    const { baseUrl, server } = this.#context
    const given = baseUrl ?? this.#variable('UIPATH_URL')
    const field = baseUrl === undefined ? 'UIPATH_URL' : 'baseUrl'
    if (given === undefined) {
      const message = `MCP server "${server}" is named, but there is no directory to find it in: neither option nor UIPATH_URL`
      throw lookupError('CONFIG', message, { server })
    }
    try {
      const base = new URL(urlFrom(field, given))
      return new URL(`${base.origin}${base.pathname.replace(/\/+$/, '')}/${path}`)
    } catch (error) {
      if (!(error instanceof FieldError)) throw error
      const message = `The directory of MCP server "${server}" cannot be asked: ${error.message}`
      throw lookupError('CONFIG', message, { server, cause: error })
    }
  }

  #checked<T>(code: McpClientErrorCode, parse: () => T, url: URL): T {
    try {
      return parse()
    } catch (error) {
      if (!(error instanceof FieldError)) throw error
      const { server } = this.#context
      const what = code === 'CONFIG' ? 'cannot be asked' : 'sent what cannot be used'
      throw directoryError(code, `${what}: ${error.message}`, { url, server, cause: error })
    }
  }

  #variable(name: string): string | undefined {
    const value = this.#environment[name]
    return value === '' ? undefined : value
  }
}

/** Percent-encoded as one segment of a path, which `.` and `..` cannot be. */
function segmentFrom(identifier: string): string {
  if (identifier === '.' || identifier === '..') {
    throw lookupError('CONFIG', `No MCP server can have the name "${identifier}"`, {
      server: identifier,
    })
  }
  return encodeURIComponent(identifier)
}
