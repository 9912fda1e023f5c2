// A gateway whose calls become tasks at once, for clients that know tasks. One tool is left out of that.
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import type { AgentCall, AgentListener, AgentSource, AgentUpdate } from '@x/mcp-gateway'
import { cpuUs, memory, serve } from '../measure/worker.ts'
import { echoOf, PATH, TOKEN } from './protocol.ts'

const MANY = 1_000_000_000
const SKILLS = ['echo', 'call', 'ask', 'wait']

class TaskAgent implements AgentSource {
  readonly name = 'bench'

  async start(listener: AgentListener): Promise<void> {
    const description = 'Repeats the message, asks a question, or waits.'
    const skills = SKILLS.map((id) => ({ id, name: id, description }))
    listener.found({ id: 'bench', name: 'bench', description, skills, health: 'healthy' })
  }

  async *run({ input, signal, skillId }: AgentCall): AsyncGenerator<AgentUpdate> {
    if (skillId === 'ask') {
      yield { type: 'asked', questions: [{ id: 'name', message: 'Name?' }], state: {} }
    } else if (skillId === 'wait') {
      await new Promise((_, reject) => signal.addEventListener('abort', reject, { once: true }))
    } else {
      yield { type: 'text', text: echoOf(input.kind === 'message' ? input.text : '') }
      yield { type: 'done' }
    }
  }

  async close(): Promise<void> {}
}

const gateway = createGateway({
  sources: [new TaskAgent()],
  auth: bearerAuth({ bench: { token: TOKEN, scopes: ['*'] } }),
  http: { shutdownGraceMs: 0, path: PATH },
  limits: { requestsPerMinutePerPrincipal: MANY },
  runs: { maxConcurrent: MANY, maxConcurrentPerPrincipal: MANY },
  tasks: { maxPerPrincipal: MANY },
  tools: { tasks: 'always', overrides: { 'bench/call': { tasks: 'never' } } },
})
const { port } = await gateway.listen({ port: 0 })
await gateway.registry.start()

const api = { port: () => port, cpu: cpuUs, memory }
export type TaskServerApi = typeof api
serve(api)
