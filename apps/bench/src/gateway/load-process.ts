// The load on one server: `<port>`.
import { answerTasks } from '../bench/tasks.ts'
import { isObject } from '../client/checks.ts'
import { wishFrom } from '../debugstate/workloads.ts'
import { CallLoad } from './call-load.ts'
import { CancelLoad } from './cancel-load.ts'
import { ListenerLoad, openSessions } from './listener-load.ts'
import { SingleCalls } from './overhead/single-calls.ts'

const port = Number(process.argv[2])
const calls = new CallLoad(port)
const listeners = new ListenerLoad(port)
const cancels = new CancelLoad(port)
const singles = new SingleCalls(port)

answerTasks(async (task) => {
  const { era: named, times, tool, answer, isApart } = isObject(task) ? task : {}
  const era = named === 'modern' ? 'modern' : 'legacy'
  const count = Number(times)
  switch (wishFrom(task)) {
    case 'calls':
      return calls.run(era, count)
    case 'single-calls':
      return singles.run({ era, tool: String(tool), answer: String(answer) }, count)
    case 'sessions':
      return (await openSessions(port, count)).length
    case 'listen':
      return listeners.open(era, count)
    case 'expect':
      return listeners.expect()
    case 'told':
      return listeners.lastToldAt()
    case 'most-told':
      return listeners.mostTold()
    case 'begin':
      return cancels.begin(era, String(tool), { count, isApart: isApart === true })
    case 'drop':
      return cancels.drop()
    case 'cancelled':
      return cancels.tell()
    case 'delete':
      return cancels.delete()
    default:
      throw new TypeError('A load does not know what to do')
  }
})
