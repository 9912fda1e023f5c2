import { check, optionProblem } from '@x/internal'
import type { Checks } from '@x/internal'
import type { AgentRegistry } from './agents/agent-registry.ts'
import { Assembly } from './assembly.ts'
import { GatewayError } from './gateway-error.ts'
import type { GatewayListener, ListenOptions } from './gateway-listener.ts'
import type { EraOptions, GatewayOptions } from './gateway-options.ts'
import type { LiveOptions } from './live-options.ts'
import type { StdioConnection, StdioOptions } from './protocol/stdio.ts'

/** Agents as an MCP server. Nothing starts before it is first used. */
export interface Gateway extends AsyncDisposable {
  /** Serves a request, in any application that has requests in the shape of `fetch`. Needs no `this`. Never rejects. `context` is for `http.clientAddress`. */
  readonly fetch: (request: Request, context?: unknown) => Promise<Response>
  /** Who is there, and what they are called. */
  readonly registry: AgentRegistry
  /**
   * Listens by itself.
   *
   * @throws GatewayError `LISTEN` where it cannot, `CONFIG` where it should not: at an address that others can
   * reach, without auth
   */
  listen(options?: ListenOptions): Promise<GatewayListener>
  /** Serves one client at the other end of a pipe. @throws GatewayError `CONFIG` with auth, for which a pipe has no place */
  serveStdio(options?: StdioOptions): StdioConnection
  /**
   * Takes other filters, overrides and limits while it runs; resolves when clients were told of what changed for
   * them. Sources come and go by `registry`.
   *
   * @throws GatewayError `CONFIG` for options that cannot be right: then nothing has changed
   */
  update(options: LiveOptions): Promise<void>
  /**
   * Takes no more calls, lets those that are under way end for `http.shutdownGraceMs`, then aborts them. When it
   * resolves, nothing is left: no run, no session, no timer, no socket.
   */
  close(): Promise<void>
}

/** Sections are objects; the parts of the gateway that use them check what is inside. */
const optionChecks: Checks<GatewayOptions> = {
  agents: check.record,
  sources: check.listOf(check.record),
  auth: { ...check.record, takes: 'an authenticator, such as bearerAuth(token)' },
  server: check.record,
  http: check.record,
  eras: check.section({
    modern: check.flag,
    legacy: check.oneOf('sessions', 'stateless', 'off'),
  } satisfies Checks<EraOptions>),
  sessions: check.record,
  registry: check.record,
  tools: check.record,
  runs: check.record,
  streaming: check.record,
  inline: check.record,
  artifacts: check.record,
  limits: check.record,
  secrets: check.record,
  anonymousPrincipal: check.text,
  store: { ...check.record, takes: 'a store, such as new MemoryGatewayStore()' },
  logger: {
    takes: 'a logger, or false',
    accepts: (value) => value === false || check.record.accepts(value),
  },
  observer: check.record,
  onEvent: check.func,
  onWarning: check.func,
  clock: check.record,
}

/**
 * Offers agents as an MCP server: each of their skills is a tool.
 *
 * @throws GatewayError `CONFIG` for options that are unknown or cannot be right
 */
export function createGateway(options: GatewayOptions): Gateway {
  const problem = optionProblem(options, optionChecks)
  if (problem !== undefined) throw new GatewayError('CONFIG', `createGateway(): ${problem}`)
  const assembly = new Assembly(options)
  const close = (): Promise<void> => assembly.close()
  return {
    fetch: (request, context) => assembly.fetch(request, context),
    registry: assembly.registry,
    listen: (listenOptions) => assembly.listen(listenOptions),
    serveStdio: (stdioOptions) => assembly.serveStdio(stdioOptions),
    update: (liveOptions) => assembly.update(liveOptions),
    close,
    [Symbol.asyncDispose]: close,
  }
}
