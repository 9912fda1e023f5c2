// The client under test. The suite starts it once per scenario: which client it is, and the server's URL.
import { behaviourOf } from './client/behaviours.ts'
import { runFrom } from './client/run.ts'

/** The suite waits for 30 s, and then kills the shell around us, not us. */
const DEADLINE_MS = 28_000

setTimeout(() => {
  process.stderr.write(`The client gave up after ${DEADLINE_MS} ms\n`)
  process.exit(3)
}, DEADLINE_MS).unref()

const run = runFrom(process.env, process.argv.slice(2))
const behave = behaviourOf(run.scenario)
if (behave === undefined) {
  process.stderr.write(`There is no behaviour for the scenario "${run.scenario}"\n`)
  process.exitCode = 2
} else {
  try {
    await behave(run)
  } catch (error) {
    console.error(error)
    process.exitCode = 1
  }
}
