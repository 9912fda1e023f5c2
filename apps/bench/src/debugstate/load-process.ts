// The load on one server: `<port>`.
import { answerTasks } from '../bench/tasks.ts'
import { isObject } from '../transport/messages.ts'
import { Load } from './load.ts'
import { wishFrom, workloadFrom } from './workloads.ts'

const [, , port] = process.argv
const load = new Load(Number(port))

/** What a contender asks for: see `Load`. */
answerTasks(async (task) => {
  const { workload, times } = isObject(task) ? task : {}
  const chosen = workloadFrom(workload)
  switch (wishFrom(task)) {
    case 'seed':
      return load.seed(chosen)
    case 'run':
      return load.run(chosen, Number(times))
    case 'verify':
      return load.verify(chosen)
    default:
      throw new TypeError('A load seeds, runs or verifies')
  }
})
