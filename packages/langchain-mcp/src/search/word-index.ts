import MiniSearch from 'minisearch'
import type { SearchResult } from 'minisearch'
import { meaningsOf, queryStemsOf, stemsOf } from './words.ts'

/** The texts of a document. A word counts this often for each text that has it: more of the same word adds nothing. */
type WeightedTexts = readonly (readonly [text: string, times: number])[]

export interface WordDocument {
  readonly id: string
  readonly texts: WeightedTexts
}

/** Parameters of BM25: how soon more of the same word adds little (k), and how much the length counts (b). */
const BM25 = { k: 6, b: 0.6, d: 0 }
/** Other forms of a word of the query count less than the word itself. */
const MEANING_SHARE = 0.75
const PREFIX_SHARE = 0.5
const TYPING_ERROR_SHARE = 0.3

/**
 * Scores documents by their words. A word of the query counts once, by its best form: itself, a word with the same
 * meaning, a longer word that starts with it, or a word that differs in one letter.
 */
export class WordIndex {
  readonly #index = new MiniSearch<WordDocument>({
    fields: ['terms'],
    // One field with repeated terms, because the scores of several fields would be added: two rare fields with the same
    // word would count more than one field with two words.
    extractField: ({ id, texts }, field) => (field === 'id' ? id : termsOf(texts).join(' ')),
    tokenize: (terms) => terms.split(' '),
    processTerm: (term) => term,
  })

  private constructor() {}

  /** Makes the index in parts: for 300 tools, it takes a tenth of a second. */
  static async of(documents: readonly WordDocument[]): Promise<WordIndex> {
    const index = new WordIndex()
    await index.#index.addAllAsync(documents)
    return index
  }

  /** Returns the scores of the documents that have a word of the query, by their ids. */
  scores(query: string): ReadonlyMap<string, number> {
    const scores = new Map<string, { sum: number; words: number }>()
    for (const stem of queryStemsOf(query)) {
      const found = this.#scoresOf(stem)
      const best = Math.max(...found.values())
      for (const [id, score] of found) {
        const { sum, words } = scores.get(id) ?? { sum: 0, words: 0 }
        scores.set(id, { sum: sum + score, words: words + score / best })
      }
    }
    // A document with two words of the query is meant rather than one with a rarer word.
    return new Map(Array.from(scores, ([id, { sum, words }]) => [id, sum * words]))
  }

  #scoresOf(stem: string): ReadonlyMap<string, number> {
    const best = new Map<string, number>()
    const take = (share: number, results: readonly SearchResult[]): void => {
      for (const { id, score } of results) {
        best.set(String(id), Math.max(share * score, best.get(String(id)) ?? 0))
      }
    }
    const weights = { prefix: PREFIX_SHARE, fuzzy: TYPING_ERROR_SHARE }
    const fuzzy = stem.length > 5 && 1
    const similar = { prefix: stem.length > 3, fuzzy, maxFuzzy: 1, weights, bm25: BM25 }
    take(1, this.#index.search(stem, similar))
    for (const meaning of meaningsOf(stem)) {
      take(MEANING_SHARE, this.#index.search(meaning, { bm25: BM25 }))
    }
    return best
  }
}

function termsOf(texts: WeightedTexts): string[] {
  return texts.flatMap(([text, times]) => {
    const ofText = new Set(stemsOf(text).flatMap((stem) => [stem, ...meaningsOf(stem)]))
    return Array.from({ length: times }, () => [...ofText]).flat()
  })
}
