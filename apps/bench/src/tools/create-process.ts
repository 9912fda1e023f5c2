// Makes many tools, in a process of its own: `<maker> <url>`.
import { answerTasks } from '../bench/tasks.ts'
import { numbersFrom } from '../client/checks.ts'
import { makerNamed } from './makers.ts'

const [, , name, url = ''] = process.argv
const maker = await makerNamed(name, url)

/** Told how many tools, and how often; says what that cost altogether. */
answerTasks(async (task) => {
  const { tools, times } = numbersFrom(task, ['tools', 'times'])
  const costs = { createUs: 0, showUs: 0, wallUs: 0 }
  if (times === 1) globalThis.gc?.() // what loading the code has left behind is no part of it
  for (let time = 0; time < times; time += 1) {
    const create = maker(tools) // what was read from a file or a server is no part of it
    const startedAt = performance.now()
    const start = cpuUs()
    const made = await create()
    const created = cpuUs()
    costs.wallUs += (performance.now() - startedAt) * 1000
    // What a model is told of, and what nobody can put off any longer.
    const shown = made.tools.filter(({ schema }) => typeof schema === 'object').length
    costs.createUs += created - start
    costs.showUs += cpuUs() - created
    await made.dispose()
    if (shown !== tools) throw new Error(`${shown} tools of ${tools} have a schema`)
  }
  return costs
})

function cpuUs(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}
