import { conformanceServer } from '@x/test-kit'
import { createGateway } from '@x/mcp-gateway'
// Not for everybody: only here is something else than agents put behind the legs of a gateway.
import { Assembly } from '../../../../../packages/mcp-gateway/src/assembly.ts'
import { McpServers } from '../../../../../packages/mcp-gateway/src/protocol/mcp-servers.ts'
import type { ServerParts } from '../../../../../packages/mcp-gateway/src/protocol/server-parts.ts'
import { fixtureAgents } from './fixture-agents.ts'
import type { TargetKind } from './target-kind.ts'

export interface Target extends AsyncDisposable {
  /** Ends in `/mcp`. */
  readonly url: string
}

/** Starts one on a free port of 127.0.0.1, for one scenario. */
export async function startTarget(kind: TargetKind): Promise<Target> {
  const gateway =
    kind === 'agents'
      ? createGateway({
          agents: fixtureAgents,
          tools: { parameters: 'schema' },
          streaming: { channel: 'both' }, // there is a scenario for either
        })
      : new Assembly({}, (parts) => new FixtureServers(parts))
  try {
    const { url } = await gateway.listen({ port: 0 })
    return { url, [Symbol.asyncDispose]: () => gateway.close() }
  } catch (error) {
    await gateway.close()
    throw error
  }
}

/** Makes a server of the fixture wherever a gateway makes one for its agents. */
class FixtureServers extends McpServers {
  readonly #parts: ServerParts

  constructor(parts: ServerParts) {
    super(parts)
    this.#parts = parts
  }

  override create(): ReturnType<McpServers['create']> {
    const { changes } = this.#parts
    return conformanceServer({
      tellToolsChanged: () => changes.toolsChanged(),
      tellPromptsChanged: () => changes.promptsChanged(),
    })
  }
}
