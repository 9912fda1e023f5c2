// Agents on the server side of `@a2a-js/sdk`, in a process of their own: `<count> [unary]`.
import { answerTasks } from '../../bench/tasks.ts'
import { startA2aAgent } from '../../interop/a2a/a2a-agent.ts'

const [, , count, kind] = process.argv
const agents = await Promise.all(
  Array.from({ length: Number(count) }, () =>
    startA2aAgent({ version: '1.0', streaming: kind !== 'unary' }),
  ),
)

answerTasks(async () => agents.map(({ url }) => url))
