import { fileURLToPath } from 'node:url'
import { MissingRequiredClientCapabilityError } from '@modelcontextprotocol/server'
import { createGateway } from '@x/mcp-gateway'
import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  Gateway,
  GatewayOptions,
} from '@x/mcp-gateway'
// Internal modules, because users cannot put anything but agents behind a gateway.
import { Runtime } from '../../../../../packages/mcp-gateway/src/gateway/runtime.ts'
import {
  GatewayHandlers,
  type McpHandlers,
} from '../../../../../packages/mcp-gateway/src/mcp/handlers.ts'
import type { TargetKind } from '../plan.ts'
import { fixtureAgents, fixtureOverrides } from './fixture-agents.ts'
import { FixtureHandlers } from './fixture-handlers.ts'

export interface Target extends AsyncDisposable {
  /** Ends in `/mcp`. */
  readonly url: string
}

/** Starts a server for one scenario, on a free port of 127.0.0.1. */
export async function startTarget(kind: TargetKind): Promise<Target> {
  const gateway = MAKERS[kind]()
  try {
    const { url } = await gateway.listen({ port: 0 })
    return { url, [Symbol.asyncDispose]: () => gateway.close() }
  } catch (error) {
    await gateway.close()
    throw error
  }
}

const MAKERS: Readonly<Record<TargetKind, () => Pick<Gateway, 'listen' | 'close'>>> = {
  agents: () => createGateway(withAgents()),
  sampling: () =>
    new Runtime(withAgents(), {
      makeHandlers: (parts) => withSampling(new GatewayHandlers(parts)),
    }),
  fixture: () => new Runtime({}, { makeHandlers: (parts) => new FixtureHandlers(parts) }),
}

function withAgents(): GatewayOptions {
  return {
    agents: fixtureAgents,
    skillFolder: fileURLToPath(new URL('skills', import.meta.url)),
    sources: [new ChangingAgents()],
    tools: { parameters: 'schema', overrides: fixtureOverrides },
    streaming: { channel: 'both' }, // the suite has scenarios for both channels
  }
}

/** Adds a tool that needs the model of the client. */
function withSampling(handlers: McpHandlers): McpHandlers {
  const { serverInfo, instructions } = handlers
  return {
    serverInfo,
    instructions,
    capabilities: (kind) => handlers.capabilities(kind),
    handle(method, params, context) {
      if (method !== 'tools/call' || params['name'] !== 'test_missing_capability') {
        return handlers.handle(method, params, context)
      }
      const missing = { requiredCapabilities: { sampling: {} } }
      if (!context.client.capabilities['sampling']) {
        throw new MissingRequiredClientCapabilityError(missing, 'This tool needs sampling')
      }
      return {
        resultType: 'input_required',
        inputRequests: {
          answer: {
            method: 'sampling/createMessage',
            params: {
              messages: [{ role: 'user', content: { type: 'text', text: 'Say hello' } }],
              maxTokens: 100,
            },
          },
        },
      }
    },
  }
}

/** Agents that let another agent join at each call, so that lists change while clients listen. */
class ChangingAgents implements AgentSource {
  readonly name = 'changing'
  readonly isLocal = true
  #listener: AgentListener | undefined
  #joined = 0

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
    listener.found(agent('test_trigger_tool_change'))
    listener.found(agent('test_trigger_prompt_change'))
  }

  async *run({ agentId }: AgentCall): AsyncGenerator<AgentUpdate> {
    const name = `joined_${++this.#joined}`
    // Each example becomes a prompt.
    const examples = agentId === 'test_trigger_prompt_change' ? ['Say hello'] : []
    this.#listener?.found(agent(name, examples))
    yield { type: 'done', text: `${name} has joined.` }
  }

  async close(): Promise<void> {
    this.#listener = undefined
  }
}

function agent(name: string, examples: readonly string[] = []): Agent {
  const description = `Answers as ${name}.`
  const inputSchema = { type: 'object', properties: {} }
  return {
    id: name,
    name,
    description,
    skills: [{ id: name, name: '', description, inputSchema, examples }],
    health: 'healthy',
  }
}
