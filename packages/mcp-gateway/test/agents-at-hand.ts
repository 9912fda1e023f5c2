import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
} from '../src/agents/agent.ts'

/** What an agent does with a call. */
export type Behaviour = (call: AgentCall) => AsyncIterable<AgentUpdate> | Iterable<AgentUpdate>

/** Agents that a test brings in and takes away while a gateway runs. */
export class AgentsAtHand implements AgentSource {
  readonly name = 'at hand'
  readonly isLocal = true
  readonly calls: AgentCall[] = []
  readonly #behaviours = new Map<string, Behaviour>()
  readonly #agents = new Map<string, Agent>()
  #listener: AgentListener | undefined

  constructor(behaviours: Readonly<Record<string, Behaviour>> = {}) {
    for (const [id, behaviour] of Object.entries(behaviours)) this.join(id, behaviour)
  }

  join(id: string, behaviour: Behaviour, over: Partial<Agent> = {}): void {
    const agent: Agent = {
      id,
      name: id,
      description: `Does what ${id} does`,
      skills: [],
      health: 'healthy',
      ...over,
    }
    this.#behaviours.set(id, behaviour)
    this.#agents.set(id, agent)
    this.#listener?.found(agent)
  }

  leave(id: string): void {
    this.#agents.delete(id)
    this.#listener?.gone(id)
  }

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
    for (const agent of this.#agents.values()) listener.found(agent)
  }

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    this.calls.push(call)
    yield* this.#behaviours.get(call.agentId)?.(call) ?? []
  }

  async close(): Promise<void> {}
}

/** Says what it was told. */
export function* echo({ input }: AgentCall): Iterable<AgentUpdate> {
  yield { type: 'text', text: input.kind === 'message' ? input.text : JSON.stringify(input.value) }
  yield { type: 'done' }
}

/** Says one word, and then nothing until it is stopped. */
export async function* endless({ signal }: AgentCall): AsyncIterable<AgentUpdate> {
  yield { type: 'text', text: 'begun' }
  await new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error))
  })
}

/** Asks for a name and a colour, and then answers with both. */
export function* asking({ resume }: AgentCall): Iterable<AgentUpdate> {
  if (resume) {
    yield { type: 'done', text: JSON.stringify(resume.answers) }
    return
  }
  const questions = [
    { id: 'name', message: 'Name?' },
    { id: 'colour', message: 'Colour?' },
  ]
  yield { type: 'asked', questions, state: { at: 1 } }
}
