// Package assign decides who gets which task. Plan is a pure function of what the members said and of the partition
// counts; the same input gives the same plan on every leader.
//
// A plan is balanced to within one task per member, keeps a task where it is if balance allows, gives a process that has
// come back its own tasks, and is cooperative: a task that another live member still owns is withheld from the one that
// will get it until its owner has given it up and joined again.
package assign
