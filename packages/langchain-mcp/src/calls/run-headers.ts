import type { McpServerConfig, PerServerOptions, ScopedRequest, UrlConfig } from '@x/mcp-client'
import { currentCall } from './call-context.ts'

/** What a request to a server is for, whose it is, and what the run says of it. */
export interface ToolRequest extends ScopedRequest {
  /** `configurable` of the config that the tool was called with. */
  readonly configurable: Readonly<Record<string, unknown>>
}

/** Headers, or a function that is asked for them before every request. */
export type ToolHeaders =
  | Readonly<Record<string, string>>
  | ((
      request: ToolRequest,
    ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)

/** A server as a client takes it, with options of its own; its headers may also depend on the run. */
export type McpToolsServerConfig = PerServerOptions &
  (
    | Exclude<McpServerConfig, UrlConfig>
    | (Omit<UrlConfig, 'headers'> & { readonly headers?: ToolHeaders | undefined })
  )

/** Splits an entry of `servers` into the server and its own options; one that is undefined is not given. */
export function entryFrom(entry: McpToolsServerConfig): {
  readonly config: McpToolsServerConfig
  readonly own: PerServerOptions
} {
  const { authProvider, dispatcher, era, limits, timeoutMs, ...config } = entry
  const given = Object.entries({ authProvider, dispatcher, era, limits, timeoutMs })
  return { config, own: Object.fromEntries(given.filter(([, value]) => value !== undefined)) }
}

/** Header functions are told what the run says, and calls may add their own (`addsOwn`); a client knows nothing of either. */
export function toldOfRun(
  config: McpToolsServerConfig,
  { addsOwn }: { readonly addsOwn: boolean },
): McpServerConfig {
  if (!('url' in config)) return config
  const { headers, ...rest } = config
  if (typeof headers !== 'function' && !addsOwn) return { ...rest, headers }
  return {
    ...rest,
    async headers(request) {
      const call = currentCall()
      // The client makes each request in a context of its owner. This check makes sure of it: a request in another context must not get the credentials of that user.
      const isOwn = call?.scope.principal === request.scope?.principal
      const { configurable = {}, headers: own } = (isOwn ? call : undefined) ?? {}
      const common =
        typeof headers === 'function' ? await headers({ ...request, configurable }) : headers
      // Those of one call are for its own request, never for a handshake or a stream that others share.
      return request.rpcMethod === 'tools/call' ? overridden(common, own) : { ...common }
    },
  }
}

/** Names of headers have no case: one that is given twice would be sent twice. */
function overridden(
  common: Readonly<Record<string, string>> = {},
  own: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const entries = [...Object.entries(common), ...Object.entries(own)]
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]))
}
