import { connect } from './connection.ts'
import type { Behaviour, Run } from './run.ts'

/** The server closes the stream of the call before the answer, and answers on whatever GET comes next. */
async function callToolThatIsCutOff(run: Run): Promise<void> {
  await using connection = await connect(run)
  const { tools } = await connection.client.listTools()
  for (const { name } of tools) await connection.client.callTool({ name, arguments: {} })
}

/** Streams that end before the answer has come. */
export const streams: Readonly<Record<string, Behaviour>> = {
  'sse-retry': callToolThatIsCutOff,
}
