import type { Agent, AgentCall, AgentListener, AgentSource, AgentUpdate } from '@x/mcp-gateway'

/** Agents that bring in another one each time they are called: lists change while clients listen. */
export class ChangingAgents implements AgentSource {
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
    // A prompt is made of each example.
    const examples = agentId === 'test_trigger_prompt_change' ? ['Say hello'] : []
    this.#listener?.found(agent(name, examples))
    yield { type: 'done', text: `${name} has come.` }
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
