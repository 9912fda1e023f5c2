import { bearerAuth, createGateway } from '@x/mcp-gateway'
import type { Gateway, GraphDefinition } from '@x/mcp-gateway'

/** An agent of this process as an MCP server with one tool, on a free port of loopback. */
export class OfferedAgent implements AsyncDisposable {
  /** Of the MCP endpoint. */
  readonly url: string
  readonly #gateway: Gateway
  readonly #runs: ReadonlySet<string>

  private constructor(url: string, gateway: Gateway, runs: ReadonlySet<string>) {
    this.url = url
    this.#gateway = gateway
    this.#runs = runs
  }

  /** @param token what callers have to bring */
  static async offer(agent: GraphDefinition, token: string): Promise<OfferedAgent> {
    const runs = new Set<string>()
    const gateway = createGateway({
      agents: { agent },
      auth: bearerAuth(token),
      onEvent: ({ runId }) => runs.add(runId),
    })
    const { url } = await gateway.listen({ port: 0 })
    return new OfferedAgent(url, gateway, runs)
  }

  /** How often callers had the agent run. */
  get runs(): number {
    return this.#runs.size
  }

  /** Lets calls that are under way end. The agent itself goes on. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#gateway.close()
  }
}
