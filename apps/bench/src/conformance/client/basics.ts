import { connect } from './connection.ts'
import type { Behaviour, Run } from './run.ts'

async function listTools(run: Run): Promise<void> {
  await using connection = await connect(run)
  await connection.client.listTools()
}

async function callEveryTool(run: Run): Promise<void> {
  await using connection = await connect(run)
  const { tools } = await connection.client.listTools()
  for (const { name } of tools) {
    await connection.client.callTool({ name, arguments: { a: 5, b: 3 } })
  }
}

/** What every client does: connect, see which tools there are, call them. */
export const basics: Readonly<Record<string, Behaviour>> = {
  initialize: listTools,
  tools_call: callEveryTool,
  'json-schema-ref-no-deref': listTools,
}
