import { expectThat } from '../check.ts'
import type { Ability, ClientUnderTest } from './client-kind.ts'
import { expectHolds } from './expect-holds.ts'

/** One thing that a user does with a client that is connected to the gateway. */
export interface Use {
  readonly name: string
  /** What the client has to be able to do. */
  readonly needs?: Ability
  /** The client was not given a way to answer questions. */
  readonly withoutAnswers?: boolean
  readonly run: (client: ClientUnderTest, seen: Seen) => Promise<void>
}

/** What the client told its user by itself. */
export interface Seen {
  readonly questions: readonly string[]
  /** The list of tools changed. */
  readonly change: Promise<void>
  readonly showsProgress: boolean
  /** It is in a session, which has a list of its files; a nameless caller without one has none. */
  readonly hasSession: boolean
}

/** The same over HTTP and over pipes. The list changes once. */
export const USES: readonly Use[] = [
  { name: 'lists and calls', run: listsAndCalls },
  { name: 'makes 50 calls at once', run: callsManyAtOnce },
  { name: 'tells what is wrong with arguments', run: tellsArguments },
  { name: 'shows what an agent does meanwhile', needs: 'progress', run: showsProgress },
  { name: 'stops the agent of a call that it gives up', run: cancels },
  { name: 'answers what an agent asks', needs: 'answers', run: answers },
  { name: 'is told a question', needs: 'silence', withoutAnswers: true, run: isToldQuestion },
  { name: 'hears of an agent that joins', needs: 'changes', run: hearsOfChange },
  { name: 'lists prompts and gets one', needs: 'prompts', run: getsPrompt },
  { name: 'gets a file with the result', run: getsFile },
  { name: 'reads a file again by its URI', needs: 'resources', run: readsFile },
]

async function listsAndCalls(client: ClientUnderTest): Promise<void> {
  const names = await client.listTools()
  expectThat(names.includes('support_ask'), `expected support_ask, got ${names.join(', ')}`)
  const answer = await client.call('support_ask', 'Where is it?')
  expectHolds(answer, 'You said: Where is it?')
}

async function callsManyAtOnce(client: ClientUnderTest): Promise<void> {
  const questions = Array.from({ length: 50 }, (_, index) => `Where is order <${index}>?`)
  const all = await Promise.all(questions.map((each) => client.call('support_ask', each)))
  for (const [index, answer] of all.entries()) expectHolds(answer, `You said: ${questions[index]}`)
}

async function tellsArguments(client: ClientUnderTest): Promise<void> {
  // Some give it as a result, some throw it.
  const told = await client.call('support_ask', ' ').catch(String)
  expectHolds(told, 'message')
  expectHolds(await client.call('support_ask', 'Still there?'), 'Still there?')
}

/** It hears of the walker before the walker can answer. */
async function showsProgress(client: ClientUnderTest): Promise<void> {
  const isOnItsWay = Promise.withResolvers<void>()
  const call = client.call('walker', 'Go', {
    onProgress: (message) => {
      if (message.includes('On my way')) isOnItsWay.resolve()
    },
  })
  await Promise.race([isOnItsWay.promise, call])
  await client.call('gate', 'Open')
  expectHolds(await call, 'Arrived')
}

async function cancels(client: ClientUnderTest, seen: Seen): Promise<void> {
  const controller = new AbortController()
  const begun = Promise.withResolvers<void>()
  const call = client.call('endless', 'Go on', {
    signal: controller.signal,
    onProgress: (message) => {
      if (message.includes('Begun')) begun.resolve()
    },
  })
  const outcome = call.then(
    (answer) => `it answered ${answer}`,
    () => 'rejected',
  )
  // Who shows no progress cannot know that it began; a call behind it comes to the gateway after it.
  if (seen.showsProgress) await begun.promise
  else await client.call('support_ask', 'Is the other one there?')
  controller.abort()
  expectThat((await outcome) === 'rejected', `expected a rejection, but ${await outcome}`)
  expectHolds(await client.call('witness', 'Was it?'), 'It was stopped')
}

async function answers(client: ClientUnderTest, seen: Seen): Promise<void> {
  expectHolds(await client.call('shirts', 'One, please'), 'A shirt in L')
  const asked = seen.questions.join(' | ')
  expectThat(asked === 'Which size?', `expected to be asked "Which size?", was asked "${asked}"`)
}

async function isToldQuestion(client: ClientUnderTest): Promise<void> {
  const told = await client.call('shirts', 'One, please')
  expectHolds(told, 'Which size?')
  expectHolds(told, 'resume')
}

async function hearsOfChange(client: ClientUnderTest, seen: Seen): Promise<void> {
  const before = await client.listTools()
  expectThat(!before.includes('late'), 'the agent was there already')
  await client.call('host', 'Let somebody in')
  await seen.change
  const names = await client.listTools()
  expectThat(names.includes('late'), `expected late, got ${names.join(', ')}`)
  expectHolds(await client.call('late', 'Hello'), 'Better late than never')
}

async function getsPrompt({ listPrompts, getPrompt }: ClientUnderTest): Promise<void> {
  const names = (await listPrompts?.()) ?? []
  const [name = ''] = names
  expectThat(name === 'support_ask_example_1', `expected one prompt, got ${names.join(', ')}`)
  expectHolds((await getPrompt?.(name)) ?? '', 'Where is order 7?')
}

async function getsFile(client: ClientUnderTest): Promise<void> {
  expectHolds(await client.call('painter', 'a house'), 'A picture of a house')
}

async function readsFile(client: ClientUnderTest, { hasSession }: Seen): Promise<void> {
  const answer = await client.call('painter', 'a tree')
  const uri = /artifact:\/\/[^"\\ ]+/.exec(answer)?.[0] ?? ''
  expectThat(uri !== '', `expected the URI of a file, got ${answer}`)
  expectHolds((await client.readResource?.(uri)) ?? '', 'A picture of a tree')
  const uris = (await client.listResources?.()) ?? []
  const isListed = uris.some((each) => uri.startsWith(each))
  expectThat(
    isListed === hasSession,
    `expected the list to have it: ${hasSession}, got ${uris.join()}`,
  )
}
