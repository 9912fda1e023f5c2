// The load on one server: `<port>`.
import { answerTasks } from '../bench/tasks.ts'
import { isObject } from '../client/checks.ts'
import { wishFrom } from '../debugstate/workloads.ts'
import { CallLoad } from './call-load.ts'

const port = Number(process.argv[2])
const calls = new CallLoad(port)

answerTasks(async (task) => {
  const { era, times } = isObject(task) ? task : {}
  switch (wishFrom(task)) {
    case 'calls':
      return calls.run(era === 'modern' ? 'modern' : 'legacy', Number(times))
    default:
      throw new TypeError('A load does not know what to do')
  }
})
