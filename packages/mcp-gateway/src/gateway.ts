import { Runtime } from './gateway/runtime.ts'
import type { GatewayOptions } from './options.ts'

/** Agents as an MCP server. Nothing starts before the first use. */
export type Gateway = Pick<
  Runtime,
  'fetch' | 'registry' | 'listen' | 'serveStdio' | 'work' | 'close' | typeof Symbol.asyncDispose
>

/**
 * Makes a gateway that offers agents as an MCP server: each of their skills is a tool.
 *
 * @throws GatewayError `CONFIG` for options that are unknown or wrong
 * @example
 * ```ts
 * import { createGateway, langGraphSource } from '@x/mcp-gateway'
 *
 * const gateway = createGateway({ sources: [langGraphSource('./langgraph.json')] })
 * const { url } = await gateway.listen({ port: 8000 }) // serves until gateway.close()
 * ```
 */
export function createGateway(options: GatewayOptions): Gateway {
  return new Runtime(options)
}
