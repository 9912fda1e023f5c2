import type { RunnableConfig } from '@langchain/core/runnables'
import { isRecord } from '@x/internal'
import type { McpServerLabel } from '../tool-source.ts'
import { AnswerLog, askForAccess } from './ask-person.ts'
import {
  finishError,
  type AccessPage,
  type AuthorizationToInterrupt,
} from './authorization-to-interrupt.ts'
import { digest } from './call-context.ts'
import { MAX_QUESTION_ROUNDS, type SharedByCalls } from './call-rounds.ts'
import { listPlaceOf, questionKey, stepIn, type GraphPlace } from './graph-place.ts'
import { executionOf, loadLangGraph, type LangGraphRuntime } from './langgraph.ts'

/** Returns true if a list failed because a person has to grant access. The person is asked when all lists have settled. */
export type NeedsAccess = (error: unknown, server: McpServerLabel) => boolean

/** Stands for the name of a tool in questions about lists. */
const LISTING = 'tools/list'

/** A list of tools needs the sign-in of a person. Plain data, because a checkpoint stores it. */
interface Refusal extends AccessPage {
  readonly server: McpServerLabel
  /** Why the previous callback of the authorization server failed. */
  readonly problem: string | undefined
}

/** Reads the lists of some servers. */
export interface Listing<Lists> {
  readonly servers: readonly string[]
  readonly read: (needsAccess?: NeedsAccess) => Promise<Lists>
}

/** The first reading of the lists of some servers, by the attempts of tasks that read them. */
const readingsOfAttempts = new WeakMap<object, Map<string, Promise<unknown>>>()

/**
 * Reads lists of tools. In a task of a graph, interrupts the graph if one of them needs a sign-in, and reads the lists
 * again when the graph is resumed. As for a call, each round is executed once, because a callback is valid once.
 *
 * @throws what `read` throws; LangGraph's `GraphInterrupt`
 */
export async function listWithSignIn<Lists>(
  { authorization, warnOfUnknown }: Pick<SharedByCalls, 'authorization' | 'warnOfUnknown'>,
  { servers, read }: Listing<Lists>,
  config: RunnableConfig | undefined,
): Promise<Lists> {
  const attempt = executionOf(config)
  if (authorization === undefined || config === undefined || attempt === undefined) return read()
  const name = `${LISTING}:${digest(servers)}`
  const [place, graph] = [listPlaceOf(config, name), await loadLangGraph()]
  if (place === undefined || graph === undefined) return read()
  const readings = readingsOfAttempts.get(attempt) ?? new Map<string, Promise<unknown>>()
  readingsOfAttempts.set(attempt, readings)
  // The answers of the attempt belong to its first reading. A later one finds what that has read.
  const first = readings.get(name)
  if (first !== undefined) return first.then(() => read())
  const answers = new AnswerLog(place, warnOfUnknown)
  const reading = readInRounds({ authorization, graph, place, answers, read })
  readings.set(name, reading)
  return reading
}

async function readInRounds<Lists>({
  authorization,
  graph,
  place,
  answers,
  read,
}: Pick<Listing<Lists>, 'read'> & {
  readonly authorization: AuthorizationToInterrupt
  readonly graph: LangGraphRuntime
  readonly place: GraphPlace
  readonly answers: AnswerLog
}): Promise<Lists> {
  let lists: { readonly read: Lists } | undefined
  const step = stepIn(
    { graph, place },
    {
      name: `mcp:${LISTING}`,
      run: async (callback: string | undefined): Promise<Refusal | null> => {
        // If this gives no tokens, the server answers 401 again, and the person is asked again.
        const problem = callback && (await finishError(authorization, callback))
        let refusal: Refusal | null = null
        const needsAccess: NeedsAccess = (error, server) => {
          const page = authorization.pageIn(error)
          if (page !== undefined) refusal ??= { ...page, server, problem }
          return page !== undefined
        }
        lists = { read: await read(needsAccess) }
        return refusal
      },
      isNeeded: isRefusal,
    },
  )
  let callback: string | undefined
  for (let number = 1; number <= MAX_QUESTION_ROUNDS; number++) {
    const outcome = await step(callback)
    // Without lists, an earlier execution of the task has read them.
    if (!isRefusal(outcome)) return lists === undefined ? read() : lists.read
    const origin = { server: outcome.server, toolName: LISTING }
    const key = questionKey(place, number)
    callback = await askForAccess(graph, { origin, key, answers, needed: outcome })
  }
  return read()
}

/** Narrows the type. The value was made here, or comes from a checkpoint. */
function isRefusal(value: unknown): value is Refusal {
  return isRecord(value) && 'url' in value
}
