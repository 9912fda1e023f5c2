import type { HeadersOption, RequestContext } from '@x/mcp-transport'
import type { SessionScope } from './session-scope.ts'

/** What the request is for, and whose it is. */
export interface ScopedRequest extends RequestContext {
  /** Of the session that the request belongs to: principal, thread and run, as far as they were given. */
  readonly scope: SessionScope | undefined
}

/** Headers, or a function that is asked for them before every request, so that a rotated token is used at once. */
export type ScopedHeaders =
  | Readonly<Record<string, string>>
  | ((
      request: ScopedRequest,
    ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)

/** For a transport, whose requests are all of one scope. */
export function headersOfScope(
  headers: ScopedHeaders,
  scope: SessionScope | undefined,
): HeadersOption {
  return typeof headers === 'function' ? (request) => headers({ ...request, scope }) : headers
}
