import type { ClientKind, ClientUnderTest, Target } from './client-kind.ts'
import type { Seen, Use } from './uses.ts'

export interface Meeting {
  readonly kind: ClientKind
  readonly target: Target
  /** @default true */
  readonly hasAnswers?: boolean
}

/** Connects a client, with somebody who answers questions, for as long as `work` takes. */
export async function meet(
  { kind, target, hasAnswers = true }: Meeting,
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

/** What a client can do of it. */
export function usesOf(kind: ClientKind, uses: readonly Use[]): readonly Use[] {
  return uses.filter(({ needs }) => needs === undefined || kind.can.includes(needs))
}
