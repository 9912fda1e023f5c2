// The client under test. The suite starts it once per scenario, with the server's URL as last argument.
import { behaviourOf } from './client/behaviours.ts'
import { runFrom } from './client/run.ts'

/** The suite waits for 30 s, and then kills the shell around us, not us. */
const DEADLINE_MS = 28_000

setTimeout(() => {
  process.stderr.write(`The client gave up after ${DEADLINE_MS} ms\n`)
  process.exit(3)
}, DEADLINE_MS).unref()

const run = runFrom(process.env, process.argv.at(-1))
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
