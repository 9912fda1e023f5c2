// One contender with one kind of answers, in a process of its own: `<contender> <url>`.
import { answerCalls } from './answer-calls.ts'
import { contenderNameFrom, makeContender } from './contenders.ts'

const [, , name, url = ''] = process.argv
const contender = await makeContender(contenderNameFrom(name), url)
answerCalls(() => contender.call())
