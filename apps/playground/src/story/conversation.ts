import type { Narrator } from './narrator.ts'

/** Something to say, and what is answered in the end. */
export type Ask = (text: string) => Promise<string>

/** Asks an agent, and tells what both say. */
export function asking(agent: { readonly ask: Ask }, narrator: Narrator): Ask {
  return async (text) => {
    narrator.says('user', text)
    const answer = await agent.ask(text)
    narrator.says('agent', answer)
    return answer
  }
}

/** What the shop's counter says in an answer of the agent; not a number, where it says nothing. */
export function counterIn(answer: string): number {
  return Number(answer.match(/counter is (\d+)/)?.[1])
}
