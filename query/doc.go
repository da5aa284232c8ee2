// Package query asks the state stores of a running application, and says exactly what is the matter when there is no
// answer.
//
// Contract:
//
//  1. Every question ends in a value or in one *Failure before the caller's deadline. There is no third outcome.
//  2. A failure's Retry alone says what to do: ask again here after RetryAfter, find the owner and open the store again,
//     go to another node, or give up. errors.Is(err, ErrRetryable) and errors.Is(err, ErrFatal) are the draft's categories.
//  3. An absent key is a value (found is false). A partition that is absent, here or anywhere, is a failure.
//  4. Reads see committed state only.
//  5. Get, GetMany, Scan and Count acquire the store and read in one message. A View, from Open, is bound to the incarnation
//     of the store that it was opened on, and says so when that has ended. A scan never joins two incarnations.
//  6. A scan validates at every step that its store still answers. One that is cut off ends with a failure that carries the
//     last key delivered, and the failure's Resume goes on after it.
//  7. One partition that is rebalancing does not hide the others; RequireRunning asks for the draft's stricter rule.
//  8. What the failure of a question shows to a remote caller holds no path, address list or error text of the host.
//
// The names and conditions are those of the KIP-216 draft. Decide is the one place where a kind is chosen; rules is its
// table, and the first row that applies wins.
package query
