import { canonicalJson } from '@x/internal'
import type { RequestContext } from '@x/mcp-transport'
import type { ScopedHeaders } from './server-config.ts'
import type { SessionScope } from './session-scope.ts'

type Give = Extract<ScopedHeaders, (request: never) => unknown>
type Given = ReturnType<Give>

/** Requests that callers of one session share. */
const SHARED: ReadonlySet<string | undefined> = new Set([
  'initialize',
  'server/discover',
  'tools/list',
])

interface Asked {
  readonly request: RequestContext
  /** Undefined if the function has thrown. */
  given: Given | undefined
}

/**
 * The function of a user that gives the headers of requests, for one scope. It may know the caller, such as by an
 * `AsyncLocalStorage`, so callers that wait for the same request may have other headers than the one that has sent it.
 */
export class HeaderFunction {
  readonly #give: Give
  readonly #scope: SessionScope | undefined
  /** The last request that callers share. */
  #last: Asked | undefined

  constructor(give: Give, scope: SessionScope | undefined) {
    this.#give = give
    this.#scope = scope
  }

  /** Returns the headers of a request. @throws the error of the function */
  headersOf(request: RequestContext): Given {
    const asked: Asked = { request, given: undefined }
    if (SHARED.has(request.rpcMethod)) this.#last = asked
    return (asked.given = this.#give({ ...request, scope: this.#scope }))
  }

  /** Returns whether the caller has headers, and others than the last request that callers share. */
  async hasOthers(): Promise<boolean> {
    const { request, given } = this.#last ?? {}
    if (request === undefined) return false
    const own = await textOf(() => this.#give({ ...request, scope: this.#scope }))
    return own !== undefined && own !== (await textOf(() => given))
  }
}

/** Returns equal texts for equal headers. Undefined if there are none. */
async function textOf(give: () => Given | undefined): Promise<string | undefined> {
  try {
    const headers = await give()
    return headers && canonicalJson(headers)
  } catch {
    return undefined
  }
}
