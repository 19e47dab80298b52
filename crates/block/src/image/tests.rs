mod behaviour;
mod concurrent;
mod faults;
mod layers;
mod model;
