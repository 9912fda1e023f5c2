import type { AgentRegistry } from './tools/agent-registry.ts'
import { Runtime, type RuntimeEdges } from './gateway/runtime.ts'
import { assertGatewayOptions } from './errors.ts'
import { listenChecks, stdioChecks } from './gateway/checked-options.ts'
import type { GatewayListener } from './http/server.ts'
import type { GatewayOptions, ListenOptions } from './options.ts'
import type { StdioConnection, StdioOptions } from './mcp/stdio.ts'

/** Agents as an MCP server. Nothing starts before the first use. */
export interface Gateway extends AsyncDisposable {
  /** Serves a request of any application with `fetch`-shaped requests. Needs no `this`. Never rejects. `context` is passed to `http.clientAddress`. */
  readonly fetch: (request: Request, context?: unknown) => Promise<Response>
  /** The agents, and the names of their tools. */
  readonly registry: AgentRegistry
  /**
   * Listens on an address.
   *
   * @throws GatewayError `LISTEN` if it cannot; `CONFIG` for an address that other machines can reach, without auth
   */
  listen(options?: ListenOptions): Promise<GatewayListener>
  /** Serves one client on a pipe. @throws GatewayError `CONFIG` with auth: a pipe cannot carry a credential */
  serveStdio(options?: StdioOptions): StdioConnection
  /**
   * Executes tasks of all processes in this one, until `close()`. Resolves when it has begun. Without this, a gateway with an
   * engine only accepts them.
   *
   * @throws GatewayError `UNAVAILABLE`; `CONFIG` without the option `engine`
   */
  work(): Promise<void>
  /**
   * Refuses new calls, lets calls in flight end within `http.shutdownGraceMs`, then aborts them. When it resolves, no
   * run, session, timer or socket is left.
   */
  close(): Promise<void>
}

/**
 * Makes a gateway that offers agents as an MCP server: each of their skills is a tool.
 *
 * @throws GatewayError `CONFIG` for options that are unknown or wrong
 */
export function createGateway(options: GatewayOptions): Gateway {
  return gatewayWith(options)
}

/** The same with other limits than those of a gateway, for tests. */
export function gatewayWith(options: GatewayOptions, edges?: RuntimeEdges): Gateway {
  const runtime = new Runtime(options, edges)
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
    work: () => runtime.work(),
    close,
    [Symbol.asyncDispose]: close,
  }
}
