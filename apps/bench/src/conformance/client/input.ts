import { connect } from './connection.ts'
import type { Behaviour, Run } from './run.ts'
import type { Answers } from './suite-client.ts'

/** Connects as a client that can be asked for all this, and calls every tool: some ask. */
function callEveryToolWith(answers: Answers): Behaviour {
  return async function callEveryTool(run: Run) {
    await using connection = await connect(run, { answers })
    const { tools } = await connection.client.listTools()
    for (const { name } of tools) await connection.client.callTool({ name, arguments: {} })
  }
}

const anything = { applyDefaults: false, content: {} } as const

/** Servers that ask the client back, and a client that says what it can be asked for. */
export const input: Readonly<Record<string, Behaviour>> = {
  'elicitation-sep1034-client-defaults': callEveryToolWith({
    elicitation: { applyDefaults: true, content: {} },
  }),
  'sep-2322-client-request-state': callEveryToolWith({
    elicitation: { applyDefaults: false, content: { confirmed: true } },
  }),
  'request-metadata': callEveryToolWith({ elicitation: anything, sampling: 'Hello', roots: [] }),
}
