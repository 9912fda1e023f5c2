// The service with tokens, on SQLite: `<file> <synchronous>`.
import { createDebugStateServer, SqliteDebugStateStore } from '@x/agents-debugstate/server'
import { answerTasks } from '../bench/tasks.ts'
import { tell } from './server-tasks.ts'
import { AGENT_IDS, TOKENS } from './workloads.ts'

const [, , file = '', synchronous] = process.argv
const store = new SqliteDebugStateStore(file, {
  synchronous: synchronous === 'full' ? 'full' : 'normal',
})
const tokens = TOKENS.map((token, index) => ({ token, agentIds: [AGENT_IDS[index] ?? ''] }))
const server = createDebugStateServer({ store, tokens })
const { port } = new URL(await server.listen())

answerTasks(async (task) => tell(task, { port }))
