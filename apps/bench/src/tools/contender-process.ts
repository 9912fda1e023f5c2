// One way to call the tool, in a process of its own: `<contender> <url>`.
import { answerCalls } from '../client/answer-calls.ts'
import { makeToolContender, toolContenderNameFrom } from './contenders.ts'

const [, , name, url = ''] = process.argv
const contender = await makeToolContender(toolContenderNameFrom(name), url)
answerCalls(() => contender.call())
