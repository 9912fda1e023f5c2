// The agent in a process of its own. It does what the host asks, until the host tells it to exit, or kills it.
import { join } from 'node:path'
import { SqliteSaver, SqliteStore } from '@x/internal/testing/langgraph'
import { toLine } from '@x/internal/command-line'
import { executionTypeFrom } from '../timeline/commands.ts'
import type { FromAgent, ToAgent } from './agent-messages.ts'
import { createModel, modelName } from './models.ts'
import { TeamRunner } from './run.ts'

const { DATA_FOLDER = '', AGENT_EXECUTION_TYPE } = process.env

const runner = new TeamRunner(
  {
    model: await createModel(modelName()),
    executionType: executionTypeFrom(AGENT_EXECUTION_TYPE),
    checkpointer: new SqliteSaver(join(DATA_FOLDER, 'agent.db')),
    store: new SqliteStore(join(DATA_FOLDER, 'agent-store.db')),
  },
  send,
)

function send(message: FromAgent): void {
  if (process.connected) process.send?.(message)
}

async function handle(message: ToAgent): Promise<void> {
  switch (message.type) {
    case 'say':
      return runner.say(message, message.text)
    case 'answer':
      return runner.answer(message, message.answers)
    case 'continue':
      return runner.continue(message)
    case 'stop-run':
      return runner.stop()
    case 'parallel-calls':
      return runner.callInParallel(message.count)
    case 'exit':
      await runner[Symbol.asyncDispose]()
      process.disconnect()
  }
}

process.on('message', (message: ToAgent) => {
  handle(message).catch((error: unknown) => {
    const text = `The agent process could not do "${message.type}": ${toLine(error)}`
    send({ type: 'notice', level: 'problem', text })
  })
})
process.once('disconnect', () => process.exit()) // the host has ended
send({ type: 'ready' })
