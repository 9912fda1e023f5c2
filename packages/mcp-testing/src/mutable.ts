/** An entry of a recording as its owner sees it: everybody else only reads. */
export type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }
