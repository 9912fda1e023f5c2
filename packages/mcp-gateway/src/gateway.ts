import type { AgentRegistry } from './tools/agent-registry.ts'
import { Runtime } from './gateway/runtime.ts'
import { assertGatewayOptions } from './errors.ts'
import { listenChecks, stdioChecks } from './gateway/checked-options.ts'
import type { GatewayListener, ListenOptions } from './gateway/gateway-listeners.ts'
import type { GatewayOptions, LiveOptions } from './options.ts'
import type { StdioConnection, StdioOptions } from './mcp/stdio.ts'

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

/**
 * Offers agents as an MCP server: each of their skills is a tool.
 *
 * @throws GatewayError `CONFIG` for options that are unknown or cannot be right
 */
export function createGateway(options: GatewayOptions): Gateway {
  const runtime = new Runtime(options)
  const close = (): Promise<void> => runtime.close()
  return {
    fetch: (request, context) => runtime.fetch(request, context),
    registry: runtime.registry,
    listen: async (listenOptions = {}) => {
      assertGatewayOptions('gateway.listen()', listenOptions, listenChecks)
      return runtime.listen(listenOptions)
    },
    serveStdio: (stdioOptions = {}) => {
      assertGatewayOptions('gateway.serveStdio()', stdioOptions, stdioChecks)
      return runtime.serveStdio(stdioOptions)
    },
    update: (liveOptions) => runtime.update(liveOptions),
    close,
    [Symbol.asyncDispose]: close,
  }
}
