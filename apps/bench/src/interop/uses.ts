import { expectContains, expectThat } from './check.ts'
import type { Ability, ClientKind, ClientUnderTest, Target } from './clients.ts'

/** One thing that a user does with a connected client. */
export interface Use {
  readonly name: string
  /** The ability that the client needs. */
  readonly needs?: Ability
  readonly run: (client: ClientUnderTest, seen: Seen) => Promise<void>
}

/** Events that the client reported to its user. */
export interface Seen {
  readonly questions: readonly string[]
  /** Resolves when the list of tools has changed. */
  readonly change: Promise<void>
  readonly showsProgress: boolean
  /** Files are listed in a session. An anonymous caller without a session has no list. */
  readonly hasSession: boolean
}

/** For HTTP and stdio. The list of tools changes once. */
export const USES: readonly Use[] = [
  { name: 'lists and calls', run: listsAndCalls },
  { name: 'makes 50 calls at once', run: callsManyAtOnce },
  { name: 'reports wrong arguments', run: reportsArguments },
  { name: 'shows progress', needs: 'progress', run: callsWithProgress },
  { name: 'cancels a call and its agent', run: cancels },
  { name: 'answers a question of an agent', needs: 'answers', run: answers },
  { name: 'gets a question as the result', needs: 'silence', run: getsQuestion },
  { name: 'is notified of an agent that joins', needs: 'changes', run: isNotified },
  { name: 'lists prompts and gets one', needs: 'prompts', run: getsPrompt },
  { name: 'gets a file with the result', run: getsFile },
  { name: 'reads a file again by its URI', needs: 'resources', run: readsFile },
]

async function listsAndCalls(client: ClientUnderTest): Promise<void> {
  const names = await client.listTools()
  expectThat(names.includes('support_ask'), `expected support_ask, got ${names.join(', ')}`)
  const answer = await client.call('support_ask', 'Where is it?')
  expectContains(answer, 'You said: Where is it?')
}

async function callsManyAtOnce(client: ClientUnderTest): Promise<void> {
  const questions = Array.from({ length: 50 }, (_, index) => `Where is order <${index}>?`)
  const all = await Promise.all(questions.map((each) => client.call('support_ask', each)))
  for (const [index, answer] of all.entries())
    expectContains(answer, `You said: ${questions[index]}`)
}

async function reportsArguments(client: ClientUnderTest): Promise<void> {
  // Some clients return the error as a result, some throw it.
  const answer = await client.call('support_ask', ' ').catch(String)
  expectContains(answer, 'message')
  expectContains(await client.call('support_ask', 'Still there?'), 'Still there?')
}

/** The progress arrives before the agent can answer. */
async function callsWithProgress(client: ClientUnderTest): Promise<void> {
  const reported = Promise.withResolvers<void>()
  const call = client.call('walker', 'Go', {
    onProgress: (message) => {
      if (message.includes('On my way')) reported.resolve()
    },
  })
  await Promise.race([reported.promise, call])
  await client.call('gate', 'Open')
  expectContains(await call, 'Arrived')
}

async function cancels(client: ClientUnderTest, seen: Seen): Promise<void> {
  const controller = new AbortController()
  const started = Promise.withResolvers<void>()
  const call = client.call('endless', 'Go on', {
    signal: controller.signal,
    onProgress: (message) => {
      if (message.includes('Begun')) started.resolve()
    },
  })
  const outcome = call.then(
    (answer) => `the answer ${answer}`,
    () => 'rejected',
  )
  // Without progress, a later call shows that this one has reached the gateway.
  if (seen.showsProgress) await started.promise
  else await client.call('support_ask', 'Has the other call arrived?')
  controller.abort()
  expectThat((await outcome) === 'rejected', `expected a rejection, got ${await outcome}`)
  expectContains(await client.call('witness', 'Was it?'), 'It was stopped')
}

async function answers(client: ClientUnderTest, seen: Seen): Promise<void> {
  expectContains(await client.call('shirts', 'One, please'), 'A shirt in L')
  const asked = seen.questions.join(' | ')
  expectThat(asked === 'Which size?', `expected the question "Which size?", got "${asked}"`)
}

async function getsQuestion(client: ClientUnderTest): Promise<void> {
  const answer = await client.call('shirts', 'One, please')
  expectContains(answer, 'Which size?')
  expectContains(answer, 'resume')
}

async function isNotified(client: ClientUnderTest, seen: Seen): Promise<void> {
  const before = await client.listTools()
  expectThat(!before.includes('late'), 'the agent had joined before')
  await client.call('host', 'Let an agent join')
  await seen.change
  const names = await client.listTools()
  expectThat(names.includes('late'), `expected late, got ${names.join(', ')}`)
  expectContains(await client.call('late', 'Hello'), 'Better late than never')
}

async function getsPrompt({ listPrompts, getPrompt }: ClientUnderTest): Promise<void> {
  const names = (await listPrompts?.()) ?? []
  const [name = ''] = names
  expectThat(name === 'support_ask_example_1', `expected one prompt, got ${names.join(', ')}`)
  expectContains((await getPrompt?.(name)) ?? '', 'Where is order 7?')
}

async function getsFile(client: ClientUnderTest): Promise<void> {
  expectContains(await client.call('painter', 'a house'), 'A picture of a house')
}

async function readsFile(client: ClientUnderTest, { hasSession }: Seen): Promise<void> {
  const answer = await client.call('painter', 'a tree')
  const uri = /artifact:\/\/[^"\\ ]+/.exec(answer)?.[0] ?? ''
  expectThat(uri !== '', `expected the URI of a file, got ${answer}`)
  expectContains((await client.readResource?.(uri)) ?? '', 'A picture of a tree')
  const uris = (await client.listResources?.()) ?? []
  const isListed = uris.some((each) => uri.startsWith(each))
  expectThat(isListed === hasSession, `expected it in the list: ${hasSession}, got ${uris.join()}`)
}

interface Meeting {
  readonly kind: ClientKind
  readonly target: Target
  readonly hasAnswers: boolean
}

/** Connects a client while `work` runs. Questions are answered with `L`. */
export async function withClient(
  { kind, target, hasAnswers }: Meeting,
  work: (client: ClientUnderTest, seen: Seen) => Promise<void>,
): Promise<void> {
  const questions: string[] = []
  const change = Promise.withResolvers<void>()
  const answer = (question: string): string => {
    questions.push(question)
    return 'L'
  }
  await using client = await kind.connect(target, {
    ...(hasAnswers && { answer }),
    onToolsChanged: () => change.resolve(),
  })
  const showsProgress = kind.can.includes('progress')
  const hasSession = kind.era === 'legacy' || 'command' in target
  await work(client, { questions, change: change.promise, showsProgress, hasSession })
}

/** The uses that a client has the ability for. */
export function usesOf(kind: ClientKind, uses: readonly Use[]): readonly Use[] {
  return uses.filter(({ needs }) => needs === undefined || kind.can.includes(needs))
}
